"""Framework profiles: the switches of a training framework, their sections, and how it reserves memory."""

from simcluster.plan.spec.framework.allocator import AllocatorSpec, PoolSpec
from simcluster.plan.spec.framework.framework_profile import BEHIND_GATHERS, IDEAL, FrameworkSpec
from simcluster.plan.spec.framework.profile_sections import MEGATRON_BUCKETS, BucketSpec, FrameworkMemorySpec

__all__ = [
    "BEHIND_GATHERS",
    "IDEAL",
    "MEGATRON_BUCKETS",
    "AllocatorSpec",
    "BucketSpec",
    "FrameworkMemorySpec",
    "FrameworkSpec",
    "PoolSpec",
]
