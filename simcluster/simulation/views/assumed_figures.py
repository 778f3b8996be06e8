"""The figures that a run uses and that nobody measured or published."""

from __future__ import annotations

from simcluster import units
from simcluster.engine import RunSpec
from simcluster.plan import FrameworkSpec
from simcluster.program import PlacedProgram, Program
from simcluster.work import Kernel


def assumptions(placed: PlacedProgram, framework: FrameworkSpec, run: RunSpec) -> list[dict[str, str]]:
    """The figures nobody measured or published that the run leans on, and what the model leaves out."""
    figures = [{"name": a.name, "value": a.value, "source": a.source} for a in placed.cluster.assumptions]
    figures.append({"name": "framework", "value": framework.name, "source": framework.source})
    headroom = framework.storage.headroom
    if run.headroom is None and headroom is not None and headroom.provenance == "assumed":
        told = units.size(headroom.value)
        figures.append({"name": "headroom", "value": told, "source": headroom.source})
    devices = dict.fromkeys(placed.devices)
    bare = dict.fromkeys(device.name for device in devices if device.communication is None)
    if bare:
        figures.append(
            {
                "name": "kernels",
                "value": "not slowed beside communication",
                "source": f"no figure for what communication takes of {', '.join(bare)}",
            }
        )
    unknown = dict.fromkeys(device.name for device in devices if device.convolution is None)
    if unknown and _convolves(placed.program):
        figures.append(
            {
                "name": "convolutions",
                "value": "as fast as the matmuls that they are",
                "source": f"no table of convolutions on {', '.join(unknown)}; libraries compute them as "
                "implicit matmuls (arXiv 1410.0759)",
            }
        )
    return figures


def _convolves(program: Program) -> bool:
    """Whether any kernel is a convolution."""
    return any(
        work.kernel is Kernel.CONV
        for code in program.codes
        for instruction in code.instructions
        for work in instruction.works
    )
