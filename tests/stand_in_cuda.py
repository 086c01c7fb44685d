"""A stand-in for CUDA: onnxruntime-gpu places nodes with it on a machine without a GPU.

``python -m tests.stand_in_cuda`` fetches the wheel of onnxruntime-gpu and compiles libraries that
have the names of CUDA's and compute nothing: memory is the host's, kernels are never launched.
Sessions can be made, nodes are assigned and copies are inserted; a session must never be run.
The folder is the one that STAND_IN_CUDA_DIR names, otherwise ``.cuda`` at the root of the checkout.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

__all__ = ["FOLDER", "build", "environment", "why_not"]

FOLDER = pathlib.Path(
    os.environ.get("STAND_IN_CUDA_DIR") or pathlib.Path(__file__).parents[1] / ".cuda"
)
WHEEL = "onnxruntime-gpu==1.31.1"
_HEAD = """#include <stdlib.h>
#include <string.h>
static int handle;
#define CREATES(name) int name(void **p) { *p = &handle; return 0; }
#define SAYS(name, type, value) type name() { return value; }
#define SETS(name, type, value) int name(type *p) { *p = value; return 0; }
#define ALLOCATES(name) int name(void **p, size_t n) { \\
    *p = aligned_alloc(256, (n + 511) / 256 * 256); return 0; }
#define FREES(name) int name(void *p) { free(p); return 0; }
#define COPIES(name) int name(void *to, const void *from, size_t n) { \\
    memcpy(to, from, n); return 0; }
#define CLEARS(name) int name(void *p, int value, size_t n) { memset(p, value, n); return 0; }
"""
# What onnxruntime reads of a device: compute capability 9.0, 132 processors, warps of 32.
_RUNTIME = """
struct device { char name[256], ids[24]; unsigned mask; size_t global_bytes, shared_bytes;
    int registers, warp; size_t pitch; int threads, block[3], grid[3]; size_t constant_bytes;
    int major, minor; size_t alignments[2]; int overlap, processors; };
int cudaGetDeviceProperties(struct device *d, int i) {
    memset(d, 0, sizeof *d); strcpy(d->name, "stand-in");
    d->global_bytes = 1ull << 34; d->shared_bytes = 49152; d->registers = 65536; d->warp = 32;
    d->threads = d->block[0] = d->block[1] = 1024; d->block[2] = 64; d->grid[0] = 2147483647;
    d->grid[1] = d->grid[2] = 65535; d->major = 9; d->processors = 132; return 0; }
int cudaDeviceGetAttribute(int *v, int which, int i) {
    switch (which) { case 75: *v = 9; break; case 76: *v = 0; break; case 16: *v = 132; break;
    case 10: *v = 32; break; case 1: *v = 1024; break; default: *v = 1; } return 0; }
int cudaMemGetInfo(size_t *a, size_t *b) { *a = *b = 1ull << 34; return 0; }
int cudaPointerGetAttributes(void *a, const void *p) { memset(a, 0, 32); return 0; }
int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n) { *n = 1; return 0; }
int cudaStreamIsCapturing(void *s, int *status) { *status = 0; return 0; }
void **__cudaRegisterFatBinary(void *f) { static void *p; return &p; }
SETS(cudaGetDeviceCount, int, 1) SETS(cudaGetDevice, int, 0)
SETS(cudaDriverGetVersion, int, 13000) SETS(cudaRuntimeGetVersion, int, 13000)
ALLOCATES(cudaMalloc) ALLOCATES(cudaMallocHost) ALLOCATES(cudaHostAlloc)
ALLOCATES(cudaMallocFromPoolAsync) FREES(cudaFree) FREES(cudaFreeHost) FREES(cudaFreeAsync)
COPIES(cudaMemcpy) COPIES(cudaMemcpyAsync) CLEARS(cudaMemset) CLEARS(cudaMemsetAsync)
CREATES(cudaStreamCreate) CREATES(cudaEventCreate) CREATES(cudaStreamCreateWithFlags)
CREATES(cudaEventCreateWithFlags)
SAYS(cudaGetErrorString, const char *, "stand-in") SAYS(cudaGetErrorName, const char *, "stand-in")
"""
_BLAS = """CREATES(cublasCreate_v2) SAYS(cublasGetStatusName, const char *, "stand-in")
SAYS(cublasGetStatusString, const char *, "stand-in")
"""
_DNN = """SAYS(cudnnGetVersion, long, 91000) SAYS(cudnnGetErrorString, const char *, "stand-in")
int cudnnDropoutGetStatesSize(void *h, size_t *n) { *n = 1024; return 0; }
"""
# The list of kernels opens TensorRT's provider, too: an object whose methods all return 0.
_INFER = """
static void *method() { return 0; }
static void *methods[256]; static void **object = methods;
void *getPluginRegistry() { for (int i = 0; i < 256; i++) methods[i] = method; return &object; }
void *createInferRuntime_INTERNAL() { return getPluginRegistry(); }
SAYS(getInferLibVersion, int, 101300)
"""


def why_not() -> str:
    """Return why there is no stand-in here; empty where there is one."""
    if not (FOLDER / "complete").exists():
        return f"{FOLDER} holds no onnxruntime-gpu; python -m tests.stand_in_cuda fetches it"
    return ""


def environment() -> dict[str, str]:
    """Return the environment in which a new process imports onnxruntime-gpu on the stand-in."""
    root = pathlib.Path(__file__).parents[1]
    libraries = os.pathsep.join([str(FOLDER / "lib"), os.environ.get("LD_LIBRARY_PATH", "")])
    modules = os.pathsep.join([str(FOLDER / "wheel"), str(root)])
    return os.environ | {"LD_LIBRARY_PATH": libraries, "PYTHONPATH": modules}


def build(folder: pathlib.Path = FOLDER) -> None:
    """Fetch the wheel, 256 MB, and compile the libraries; needs pip, gcc and nm.

    Raises:
        subprocess.CalledProcessError: The wheel cannot be had, or the compiler fails.
    """
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "lib").mkdir(parents=True)
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", WHEEL, "-d"]
    subprocess.run([*download, str(folder)], check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "wheel")
    wheel.unlink()
    for name, (code, symbols) in _libraries(folder / "wheel" / "onnxruntime" / "capi").items():
        _compile(folder / "lib", name, code, symbols)
    (folder / "complete").touch()


def _libraries(capi: pathlib.Path) -> dict[str, tuple[str, set[str]]]:
    """Return by the name of each library its own code and the functions that are asked of it."""
    provider = capi / "libonnxruntime_providers_cuda.so"
    wanted = _undefined(provider) | _undefined(capi / "libonnxruntime_providers_tensorrt.so")
    # cuDNN is opened at run time: the names of its functions stand in the provider as text.
    found = re.findall(rb"\0(cudnn[A-Z]\w+)(?=\0)", provider.read_bytes())
    dnn = {name.decode() for name in found}
    makers = [n for n in dnn if re.fullmatch(r"cudnnCreate(\w+Descriptor)?", n)]
    creating = _DNN + "".join(f"CREATES({name})\n" for name in sorted(makers))

    def starting(*prefixes: str) -> set[str]:
        return {name for name in wanted if name.startswith(prefixes)}

    return {
        "libcudart.so.13": (_RUNTIME, starting("cuda", "__cuda")),
        "libcublas.so.13": (_BLAS, starting("cublas") - starting("cublasLt")),
        "libcublasLt.so.13": ("CREATES(cublasLtCreate)", starting("cublasLt")),
        "libcudnn.so.9": (creating, dnn),
        "libcuda.so.1": ("", {name for name in wanted if re.match("cu[A-Z]", name)}),
        "libcurand.so.10": ("", starting("curand")),
        "libcufft.so.12": ("", starting("cufft")),
        "libnvinfer.so.10": (_INFER, {n for n in wanted if re.match("createInfer.*_INTERNAL", n)}),
        "libnvonnxparser.so.10": ("", {n for n in wanted if "NvOnnxParser" in n}),
    }


def _undefined(library: pathlib.Path) -> set[str]:
    command = ["nm", "-D", "--undefined-only", str(library)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return {line.split()[-1].partition("@")[0] for line in lines}


def _compile(folder: pathlib.Path, name: str, code: str, symbols: set[str]) -> None:
    """Compile one library; a function without code of its own returns 0."""
    written = set(re.findall(r"\b(\w*(?:cu|Infer|get)[a-zA-Z]\w*)(?=[(,)])", code))
    rest = "".join(f"SAYS({symbol}, long, 0)\n" for symbol in sorted(symbols - written))
    source, versions = folder / f"{name}.c", folder / f"{name}.map"
    source.write_text(_HEAD + code + rest, "utf-8")
    versions.write_text(f"{name} {{ global: *; }};\n", "utf-8")
    flags = ["-w", "-std=gnu11", "-shared", "-fPIC", f"-Wl,-soname,{name}"]
    if not name.startswith(("libcuda.", "libnv")):
        flags.append(f"-Wl,--version-script={versions}")
    subprocess.run(["gcc", *flags, str(source), "-o", str(folder / name)], check=True)
    source.unlink()
    versions.unlink()


if __name__ == "__main__":
    build()
