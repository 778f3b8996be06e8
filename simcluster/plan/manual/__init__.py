"""Mode ``manual``: what somebody wrote for every rank, as a Plan; MindSpore's hybrid parallel."""
