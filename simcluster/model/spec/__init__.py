"""The scenario's ``model:`` section."""
