"""What a plan looks like: documents of a run, layouts and strategies of operators, MindSpore's tensor maps
and predict layout, the graph that Python shards.
"""
