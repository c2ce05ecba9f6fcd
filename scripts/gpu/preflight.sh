# shellcheck shell=bash
# What this machine has and what is missing, with what to do about it: in seconds, before anything is
# built. Sourced by scripts/check_gpu. Sets nvcc, cuda, make_cuda (arguments for make) and blas_path.

found() { printf '%s\t%s\t\n' "$1" "$2" >>"$out/preflight.tsv.part"; } # WHAT VALUE
lacking() {                                                          # WHAT FOUND WHAT-TO-DO
    printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$out/preflight.tsv.part"
    say "preflight: $1: $2; $3"
}

first_of() { # FILE...: the first that exists
    local file
    for file in "$@"; do
        if [ -e "$file" ]; then say "$file" && return; fi
    done
    return 1
}

# Where Python has unpacked NVIDIA's wheels: cublas/lib, cu13/lib, cuda_nvcc/bin, ...
wheels() {
    timeout 5 python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null ||
        compgen -G "${VIRTUAL_ENV:-/nowhere}/lib/python3*/site-packages/nvidia" | head -n 1
}

find_tool() { # NAME WHAT-TO-DO
    if command -v "$1" >/dev/null; then found "$1" "$(command -v "$1")" && return; fi
    lacking "$1" "none" "$2"
    return 1
}

# ---- the toolkit ----

# By NVCC, CUDA_HOME, the path, the usual places, a wheel: in this order.
find_nvcc() {
    local wheel=$1
    nvcc=$(first_of ${NVCC:+"$NVCC"} ${CUDA_HOME:+"$CUDA_HOME/bin/nvcc"} ||
        command -v nvcc ||
        { [ -z "${CUDA_HOME:-}" ] && first_of /usr/local/cuda/bin/nvcc /usr/local/cuda-*/bin/nvcc /opt/cuda/bin/nvcc; } ||
        { [ -n "$wheel" ] && first_of "$wheel"/cu13/bin/nvcc "$wheel"/cuda_nvcc/bin/nvcc; }) || nvcc=""
    if [ -z "$nvcc" ]; then
        lacking nvcc none "install the CUDA toolkit 13 (or set CUDA_HOME), or bring a build: --built GPU CPU"
        return
    fi
    # A script of that name may lie elsewhere than the toolkit, which the compiler knows.
    cuda=$(timeout 20 "$nvcc" --dryrun -c -x cu /dev/null -o /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p' | head -n 1)
    cuda=$(readlink -f "${cuda:-$(dirname "$(readlink -f "$nvcc")")/..}")
    found nvcc "$nvcc, $("$nvcc" --version 2>/dev/null | sed -n 's/.*\(release [0-9.]*\).*/\1/p')"
}

find_headers() {
    local runtime
    [ -n "$nvcc" ] || return
    if first_of "$cuda"/include/cublasLt.h "$cuda"/targets/*/include/cublasLt.h >/dev/null; then
        found cublasLt.h "in $cuda"
    else
        lacking cublasLt.h none "nothing: limpid's own declarations are compiled (kernels/cuda/project/cublaslt.h)"
    fi
    runtime=$(first_of "$cuda"/lib64/libcudart_static.a "$cuda"/lib/libcudart_static.a \
        "$cuda"/targets/*/lib/libcudart_static.a /usr/lib/x86_64-linux-gnu/libcudart_static.a) ||
        lacking libcudart_static.a none "install it: cuda-cudart-dev-13-0, or the wheel nvidia-cuda-runtime"
    make_cuda=(NVCC="$nvcc" CUDA_HOME="$cuda")
    [ -z "$runtime" ] || make_cuda+=(LDFLAGS="-L$(dirname "$runtime")")
}

# Found by the loader, in the toolkit, or inside a wheel; without it our own kernels multiply.
find_blas() {
    local wheel=$1 library
    library=$(ldconfig -p 2>/dev/null | sed -n 's/.*libcublasLt\.so\.1[23] .*=> //p' | head -n 1)
    [ -n "$library" ] || library=$(first_of ${cuda:+"$cuda"/lib64/libcublasLt.so.1[23] "$cuda"/lib/libcublasLt.so.1[23] \
        "$cuda"/targets/*/lib/libcublasLt.so.1[23]} ${wheel:+"$wheel"/*/lib/libcublasLt.so.1[23]})
    if [ -z "$library" ]; then
        lacking libcublasLt none "prompts are multiplied by limpid's own kernels; install libcublas-13-0, or the wheel nvidia-cublas"
        return
    fi
    found libcublasLt "$library"
    export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(dirname "$library")
}

# ---- the GPU and the disk ----

gpu_arch() { # of the first GPU, as the Makefile wants it; empty: all that it knows
    timeout 20 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d '. '
}

find_gpu() {
    local said
    arch=$(gpu_arch)
    said=$(timeout 20 nvidia-smi --query-gpu=name,compute_cap,memory.total,driver_version --format=csv,noheader 2>/dev/null | head -n 1)
    if [ -z "$said" ]; then
        lacking nvidia-smi "says nothing" "nothing: code for every GPU is compiled, which takes minutes more"
    elif [[ $arch =~ ^[0-9]+$ ]] && [ "$arch" -lt 80 ]; then
        lacking GPU "$said" "limpid needs an sm_80 (A100, RTX 30) or later"
    else
        found GPU "$said"
    fi
    # Of a GPU for one process alone a second one is told that it is busy.
    case $(timeout 20 nvidia-smi --query-gpu=compute_mode --format=csv,noheader 2>/dev/null | head -n 1) in
    *[Ee]xclusive*) jobs=1 && lacking "compute mode" exclusive "nothing: one process at a time, which takes minutes more" ;;
    esac
}

find_space() {
    local free
    free=$(df --output=avail -B1 "$models" 2>/dev/null | tail -n 1)
    if [ "${free:-0}" -lt $BIG_BYTES ] && [ ! -s "$models/3b-Q4_0.gguf" ]; then
        lacking disk "$((${free:-0} >> 30)) GiB free in $models" "the 3B shape is left out: all models take 20 GiB"
        touch "$out/no-3b"
    else
        rm -f "$out/no-3b"
        found disk "$((${free:-0} >> 30)) GiB free in $models"
    fi
    found processors "$(nproc), $(awk '/^MemAvailable/ { printf "%d GiB free", $2 / 1048576 }' /proc/meminfo)"
}

preflight() {
    local wheel
    nvcc="" cuda="" make_cuda=() arch=""
    rm -f "$out/preflight.tsv.part"
    find_tool make "install it (apt install make), or bring a build: --built GPU CPU"
    find_tool gcc "install it (apt install gcc), or bring a build: --built GPU CPU"
    wheel=$(wheels)
    find_nvcc "$wheel"
    find_headers
    find_blas "$wheel"
    [ "$emulated" -eq 1 ] || find_gpu
    [ "$emulated" -eq 1 ] || find_space
    find_tool compute-sanitizer "nothing: that part is skipped" || first_of "$cuda"/bin/compute-sanitizer
    find_tool ncu "nothing: calibration goes without it"
    mv "$out/preflight.tsv.part" "$out/preflight.tsv"
}
