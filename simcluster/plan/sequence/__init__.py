"""Long sequences: causal load balance (zigzag), ring attention, and slices that go through the pipeline one
by one.
"""
