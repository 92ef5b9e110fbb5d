"""The paths of the API; each name has its rule in permissions/table.py."""

from django.urls import path

from admin_console.api import history, series

urlpatterns = [
    path("series/", series.overview_series, name="overview_series"),
    path("series/<name:topic>/", series.topic_series, name="topic_series"),
    path("series/<name:topic>/<name:channel>/", series.channel_series, name="channel_series"),
    path("history/", history.overview, name="overview_history"),
    path("history/<name:topic>/", history.topic, name="topic_history"),
    path("history/<name:topic>/<name:channel>/", history.channel, name="channel_history"),
]
