"""Pipeline parallelism: virtual stages, the layers on them, and timetables of their actions."""
