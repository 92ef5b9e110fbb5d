"""The console: a Django project and app that watches the engine and acts on it through one gateway."""
