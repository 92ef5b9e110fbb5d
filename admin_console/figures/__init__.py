"""Graphs: the empty figure of each kind, made by Python plotly, and the plotly.js that fills it in the browser."""
