"""Settings of a run: the shape of the networks, what is computed, and what is recorded."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from foxflow.errors import must

SEED_BITS = 64
MOST_STEPS = 1_000_000
"""A synthetic tape has four rows a step, drawn at once."""
MOST_SEEDS = 100_000
LEVELS_OF_RECORD = ("all", "light", "none")
DEVICES = ("auto", "cpu", "cuda")
GEMMS = ("own", "cublas")
DUMP_FLAGS = {
    "per": "BCG",
    "mamba2": "AM",
    "rl": "ACDEF",
    "backward": "GHIJKLR",
    "all": "ABCDEFGHIJKLMORWX",
}
"""Flag of --dump -> groups that it dumps; values unite, `all` and `none` stand alone."""
CHUNK = 32
"""Batch rows summed by one adder before the chunk sums are added."""
VERIFY_EVERY = 100
"""Steps between full checks of the rings, by default."""
HORIZONS = (1, 8, 32)
"""Steps ahead of the forward-return labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of the trainer's axes; the letters are those of docs/trainer.md."""

    B: int = 128
    T: int = 16
    L: int = 10
    H: int = 128
    N: int = 16
    P: int = 16
    A: int = 9
    Z: int = 21
    Q: int = 32
    E: int = 64
    Y: int = 21
    C: int = 16384
    K: int = 2

    @property
    def F(self) -> int:
        """Features of one row of the tape."""
        return 4 * self.L + 16

    @property
    def M(self) -> int:
        """Mamba-2 heads."""
        return self.H // self.P

    @property
    def U(self) -> int:
        """Width of the Mamba-2 projection: z, x, B, C, delta."""
        return 2 * self.H + 2 * self.N + self.M


PRESETS = {
    "default": Shape(),
    "tiny": Shape(B=8, T=4, L=2, H=16, N=4, P=4, Z=5, Q=8, E=8, C=64),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What a run computes; two runs of one seed and one config must be equal."""

    seed: int
    steps: int = 200
    eval_steps: int = 50
    preset: str = "default"
    shape: Shape = PRESETS["default"]
    data: str = "synthetic"
    """"synthetic", "synthetic:reverting" or "file"; a file is identified by its SHA-256."""
    gemm: str = "own"
    """Who multiplies matrices; cuBLAS's bits are those of one device, torch and CUDA."""
    specimens: tuple[str, ...] = ()

    @property
    def scripted(self) -> bool:
        """The tiny preset plays a fixed script of actions: buy at step 0, flatten at step 1."""
        return self.preset == "tiny"

    def as_dict(self) -> dict[str, object]:
        """The config as JSON values, without the seed."""
        values = asdict(self)
        del values["seed"]
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What is recorded of a run; dumps have no part in its fingerprint."""

    level: str = "all"
    dump_groups: str = DUMP_FLAGS["backward"]
    dump_steps: tuple[int, int] = (0, 4)
    """First step dumped, first step no longer dumped."""
    dump_k: bool = False
    verify_every: int = VERIFY_EVERY
    """Steps from one check of the rings' running sums against all their bytes to the next; 0 for none."""


def seed_of(text: str | int) -> int:
    """Read a seed: 0 to 2^64 - 1.

    Raises:
        Mistake: it is no number or does not fit 64 bits.
    """
    try:
        seed = int(text)
    except ValueError:
        raise must("--seed", "be a whole number", repr(text)) from None
    if not 0 <= seed < 1 << SEED_BITS:
        raise must("--seed", "be between 0 and 2^64 - 1", seed)
    return seed


def seeds_of(text: str) -> tuple[int, ...]:
    """Read `42,43` or `0:64` (the end not included)."""
    if ":" in text:
        first, _, end = text.partition(":")
        span = range(seed_of(first), seed_of(end))
        seeds = tuple(span[: MOST_SEEDS + 1])
    else:
        seeds = tuple(seed_of(part) for part in text.split(","))
    if not seeds:
        raise must("--seeds", "name at least one seed", repr(text), "Write 42,43 or 0:64.")
    if len(seeds) > MOST_SEEDS:
        raise must("--seeds", f"name at most {MOST_SEEDS} seeds", repr(text))
    if len(set(seeds)) != len(seeds):
        raise must("--seeds", "name each seed once", repr(text))
    return seeds


def dump_groups(text: str) -> str:
    """Read --dump: flags joined by commas unite; `all` and `none` stand alone.

    Returns:
        The letters of the groups, sorted.
    """
    flags = [part.strip() for part in text.split(",")]
    for flag in flags:
        if flag not in (*DUMP_FLAGS, "none"):
            raise must("--dump", f"be {', '.join(DUMP_FLAGS)} or none", repr(flag), "Join several with commas.")
    if len(flags) > 1 and {"all", "none"} & set(flags):
        raise must("--dump", "use all and none alone", repr(text))
    return "".join(sorted({letter for flag in flags for letter in DUMP_FLAGS.get(flag, "")}))


def dump_steps(text: str) -> tuple[int, int]:
    """Read --dump-steps `0:4`: first step, and the first one no longer dumped."""
    first, colon, end = text.partition(":")
    if not colon or not first.isdecimal() or not end.isdecimal() or int(first) >= int(end):
        raise must("--dump-steps", "be FIRST:END with FIRST < END", repr(text), "Write 0:4 for steps 0 to 3.")
    return int(first), int(end)


def choice(option: str, value: str, allowed: tuple[str, ...]) -> str:
    """Refuse a value that is not among the allowed ones."""
    if value not in allowed:
        raise must(option, f"be {' or '.join(allowed)}", repr(value))
    return value


def config_of(*, seed: int, steps: int, eval_steps: int, preset: str, levels: int | None, data: str) -> Config:
    """Put together a config from options, refusing what can't be run."""
    choice("--preset", preset, tuple(PRESETS))
    for option, value, least in (("--steps", steps, 1), ("--eval-steps", eval_steps, 0)):
        if not least <= value <= MOST_STEPS:
            raise must(option, f"be {least} to {MOST_STEPS}", value)
    shape = PRESETS[preset]
    if levels is not None:
        if not 1 <= levels <= 64:
            raise must("--levels", "be 1 to 64", levels)
        shape = replace(shape, L=levels)
    return Config(seed=seed, steps=steps, eval_steps=eval_steps, preset=preset, shape=shape, data=data)
