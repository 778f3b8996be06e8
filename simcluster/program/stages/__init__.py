"""What one pipeline stage is lowered from: its instances and buffers, what crosses its boundary, its
timetable as executions.
"""
