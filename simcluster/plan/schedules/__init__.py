"""Pipeline schedules: one file, one schedule. Kinds are found by listing this folder."""
