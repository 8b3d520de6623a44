# SPDX-License-Identifier: BSD-3-Clause
"""trireme for Spack 1.0 and newer: `spack repo add contrib/spack/spack_repo/trireme`."""
import os

from spack_repo.builtin.build_systems.autotools import AutotoolsPackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Trireme(AutotoolsPackage, CudaPackage):
    """Trains GPT models with tensor, pipeline and data parallelism under MPI and Slurm."""

    # Releases have no address on the network: Spack takes the tarball from the folder that it is
    # started in, or from a mirror of the site.  `spack checksum` computes what `version` may say.
    manual_download = True
    url = f"file://{os.getcwd()}/trireme-0.1.0.tar.gz"

    license("BSD-3-Clause")

    version("0.1.0")

    variant("nccl", default=True, when="+cuda", description="Let GPUs of several ranks talk")
    variant("cudnn", default=True, when="+cuda", description="Take attention from cuDNN")
    variant("onednn", default=False, description="Compute bf16 products with oneDNN on CPUs")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("cmocka", type="test")

    depends_on("mpi")
    depends_on("hdf5+mpi")
    depends_on("jansson")
    depends_on("xxhash")
    depends_on("pcre2+jit+unicode")
    depends_on("utf8proc")
    depends_on("zlib-api")
    depends_on("uthash", type="build")
    depends_on("onednn@2", when="+onednn")
    depends_on("cuda@11.8:", when="+cuda")
    depends_on("nccl@2.19:", when="+nccl")
    depends_on("cudnn@9:", when="+cudnn")

    for _arch in CudaPackage.cuda_arch_values:
        if not _arch.isdigit():
            conflicts(f"cuda_arch={_arch}", msg="name GPUs by number, such as 90")

    def configure_args(self):
        spec = self.spec
        # The compiler's wrapper adds the flags of the target.
        args = [f"CC={spec['mpi'].mpicc}", "--disable-native"]
        for option, package in (
            ("hdf5", "hdf5"),
            ("jansson", "jansson"),
            ("xxhash", "xxhash"),
            ("pcre2", "pcre2"),
            ("utf8proc", "utf8proc"),
            ("zlib", "zlib-api"),
            ("uthash", "uthash"),
        ):
            args.append(f"--with-{option}={spec[package].prefix}")
        # These compare with it in benchmarks, and nothing else here wants them.
        args += ["--without-blas", "--without-blis"]
        for option, package, there in (
            ("dnnl", "onednn", spec.satisfies("+onednn")),
            ("cuda", "cuda", spec.satisfies("+cuda")),
            ("nccl", "nccl", spec.satisfies("+nccl")),
            ("cudnn", "cudnn", spec.satisfies("+cudnn")),
        ):
            args.append(f"--with-{option}={spec[package].prefix}" if there else f"--without-{option}")
        if spec.satisfies("+cuda") and not spec.satisfies("cuda_arch=none"):
            args.append("--with-cuda-arch=" + ",".join(spec.variants["cuda_arch"].value))
        return args

    def setup_run_environment(self, env):
        env.set("TRIREME_ROOT", self.prefix)
        env.set("TRIREME_VERSION", str(self.spec.version))

    def test_version(self):
        """the program starts and knows its version"""
        out = which(self.prefix.bin.trireme)("version", output=str.split, error=str.split)
        check_outputs([f"trireme {self.spec.version}"], out)
