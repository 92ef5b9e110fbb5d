"""The empty figure of each kind of graph, made by Python plotly, and the plotly.js that fills it in the browser."""
