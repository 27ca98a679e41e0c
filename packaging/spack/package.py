# A recipe for Spack 1.x, and for 0.2x with its own builtin packages. packaging/spack/repo.sh makes a repository of it for
# one tar of make dist, whose sum and place it writes into the version below (docs/install.md).
try:
    from spack_repo.builtin.build_systems.makefile import MakefilePackage
except ImportError:  # before 1.0 it comes with the next line
    pass

from spack.package import *


class Trine(MakefilePackage):
    """Distributed training of GPT-style transformers: data, tensor and pipeline parallelism with ZeRO-0 to 3 in any
    combination, on CPUs (oneDNN) and NVIDIA GPUs."""

    version("0.2.0", sha256="@SHA256@", url="@URL@")

    variant("cuda", default=False, description="Build the object for NVIDIA GPUs, opened by --device cuda")

    license("MIT")

    depends_on("c", type="build")
    depends_on("gmake", type="build")
    depends_on("mpi")
    depends_on("onednn@2.6:3")
    depends_on("cjson")
    depends_on("xxhash@0.8:")
    depends_on("pcre2@10.36:")
    depends_on("utf8proc")
    depends_on("zlib-api")
    depends_on("zstd")
    depends_on("cuda@12:", when="+cuda")
    depends_on("nccl", when="+cuda")

    @property
    def build_targets(self):
        """What make is told: the compiler's wrapper adds the folders of dependencies and RPATHs. Its -march= comes first, so
        that of MARCH=any counts."""
        return self.arguments + ["installable"]

    @property
    def install_targets(self):
        return self.arguments + ["install"]

    @property
    def arguments(self):
        spec = self.spec
        cuda = [f"CUDA_HOME={spec['cuda'].prefix}", f"NCCL_HOME={spec['nccl'].prefix}"] if "+cuda" in spec else []
        return [f"PREFIX={self.prefix}", f"MPICC={spec['mpi'].mpicc}", "CC=cc", "MARCH=any", "CCACHE=", "DYGRAPHS="] + [
            f"CUDA={int('+cuda' in spec)}"
        ] + cuda

    @run_after("install")
    def keep_test(self):
        """spack test run trine needs the script."""
        cache_extra_test_sources(self, ["debian/tests/train"])

    def test_train(self):
        """a tokenizer, token files, a training on four ranks, another on two, and text"""
        which("sh", required=True)(self.test_suite.current_test_cache_dir.debian.tests.train)
