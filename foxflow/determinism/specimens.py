"""The catalogue of specimens: real determinism bugs that `foxflow run --specimen` switches on by name."""

from __future__ import annotations

from dataclasses import dataclass

from foxflow.errors import must

BOTH = ("cpu", "cuda")


@dataclass(frozen=True, slots=True, kw_only=True)
class Specimen:
    """One bug, and where in the dataflow it shows first."""

    name: str
    devices: tuple[str, ...]
    kernel: str
    """The producer in the dataflow whose place the bug takes."""
    buffers: tuple[str, ...]
    """What that producer makes, in dataflow order: the first difference is one of these."""
    summary: str
    graph: bool = False
    """Whether the bug shows in a step that a GPU keeps as a graph: a race on memory wants memory that moves."""


SPECIMENS: dict[str, Specimen] = {
    specimen.name: specimen
    for specimen in (
        Specimen(
            name="iqn_race",
            devices=BOTH,
            kernel="iqn_tau_cos",
            buffers=("iqn_tau", "iqn_cos", "iqn_tau_target", "iqn_cos_target"),
            summary="one kernel reads the sampler's states and stores the next ones",
        ),
        Specimen(
            name="unseeded_outcome",
            devices=BOTH,
            kernel="init_outcome",
            buffers=("outcome_w",),
            summary="the outcome head's weights come from a generator seeded by time and thread id",
        ),
        Specimen(
            name="per_fence",
            devices=BOTH,
            kernel="per_rebuild",
            buffers=("per_tree",),
            summary="many blocks or threads rebuild the sum tree with a fence where a barrier is needed",
        ),
        Specimen(
            name="splitk_gemm",
            devices=BOTH,
            kernel="matmul",
            buffers=(
                "grad_in_w",
                *(f"grad_{head}_w" for head in ("q", "pi", "v", "iqn.e", "iqn.o", "dueling.v", "dueling.a")),
                *("grad_frd_w", "grad_outcome_w"),
            ),
            summary="weight gradients in eight parts, added by float atomics as they finish",
        ),
        Specimen(
            name="empty_scratch",
            devices=("cpu",),
            kernel="cfc_bwd",
            buffers=tuple(f"cfc_grad_{weight}_scratch" for weight in ("w_in", "w_rec", "b", "tau")),
            summary="gradients are added to memory that nobody zeroed, which holds what the heap held",
        ),
        Specimen(
            name="missing_sync",
            devices=("cuda",),
            kernel="reduce_rows",
            buffers=(
                *("grad_vsn_w", "grad_vsn_b"),
                *(f"grad_ln_{norm}_{part}" for norm in "ab" for part in ("gain", "bias")),
                *(f"grad_{weight}" for weight in ("attn_q", "cfc_w_in", "cfc_w_rec", "cfc_b", "cfc_tau")),
            ),
            summary="the warps of a block sum rows in shared memory without __syncthreads",
        ),
        Specimen(
            name="float_atomics",
            devices=("cuda",),
            kernel="reduce_rows",
            buffers=(
                *("grad_vsn_w", "grad_vsn_b", "grad_in_b"),
                *(f"grad_m{block}_{part}" for block in "ab" for part in ("dtb", "alog", "d")),
                *(f"grad_ln_{norm}_{part}" for norm in "ab" for part in ("gain", "bias")),
                *(f"grad_{weight}" for weight in ("attn_q", "cfc_w_in", "cfc_w_rec", "cfc_b", "cfc_tau")),
                *(f"grad_{head}_b" for head in ("q", "pi", "v", "iqn.e", "iqn.o", "dueling.v", "dueling.a")),
                *("grad_frd_b", "grad_outcome_b"),
            ),
            summary="sums over rows, in parts that are added by float atomics as they finish",
            graph=True,
        ),
        Specimen(
            name="wrong_stream",
            devices=("cuda",),
            kernel="group_norm",
            buffers=("grad_norm",),
            summary="the roots of the gradients' norms run on a stream that does not wait for the sums of squares",
        ),
        Specimen(
            name="stale_pinned",
            devices=("cuda",),
            kernel="replay_insert",
            buffers=("slot_win",),
            summary="windows go up through one page-locked buffer that is refilled during its upload",
        ),
    )
}
"""By name, in the order in which a run states them."""


def chosen(text: str) -> tuple[str, ...]:
    """Read --specimen: names joined by commas; the order in which they are written does not matter.

    Returns:
        The names in the order of the catalogue, so that one choice has one identity.

    Raises:
        Mistake: a name is not in the catalogue, or comes twice.
    """
    names = [part.strip() for part in text.split(",")] if text else []
    for name in names:
        if name not in SPECIMENS:
            raise must("--specimen", f"name {', '.join(SPECIMENS)}", repr(name), "Join several with commas.")
    if len(set(names)) != len(names):
        raise must("--specimen", "name each specimen once", repr(text))
    return tuple(name for name in SPECIMENS if name in names)


def check_device(names: tuple[str, ...], device: str) -> None:
    """Refuse a specimen on a device where its bug can't happen.

    Args:
        names: of `chosen`.
        device: "cpu" or "cuda".

    Raises:
        Mistake: a specimen does not list the device.
    """
    for name in names:
        specimen = SPECIMENS[name]
        if device not in specimen.devices:
            rule = f"run on {' or '.join(specimen.devices)}, for {specimen.summary}"
            raise must(
                f"--specimen {name}", rule, f"--device {device}", f"Leave it out or use --device {specimen.devices[0]}."
            )
