# shellcheck shell=bash
# What this machine has and what is missing, with what to do about it: in seconds, before anything is
# built. Sourced by scripts/check_gpu. Sets nvcc, cuda, make_cuda (arguments for make), arch and gpu_id.

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
    local wheel=$1 release
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
    release=$("$nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')
    nvcc_major=${release%%.*}
    found nvcc "$nvcc, release $release"
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
    local wheel=$1 library name=libcublasLt.so.${nvcc_major:-1[23]} # the program opens that of its compiler
    library=$(ldconfig -p 2>/dev/null | sed -n "s/.*${name//./\\.} .*=> //p" | head -n 1)
    # shellcheck disable=SC2086
    [ -n "$library" ] || library=$(first_of ${cuda:+"$cuda"/lib64/$name "$cuda"/lib/$name "$cuda"/targets/*/lib/$name} \
        ${wheel:+"$wheel"/*/lib/$name})
    if [ -z "$library" ]; then
        lacking libcublasLt none "prompts are multiplied by limpid's own kernels; install libcublas-13-0, or the wheel nvidia-cublas"
        return
    fi
    found libcublasLt "$library"
    export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(dirname "$library")
}

# ---- the GPU and the disk ----

# nvidia-smi counts GPUs by their place on the bus, and so shall CUDA. Of several the one with the
# newest architecture is taken, unless CUDA_VISIBLE_DEVICES names one.
choose_gpu() {
    export CUDA_DEVICE_ORDER=PCI_BUS_ID
    if [ -z "${CUDA_VISIBLE_DEVICES+set}" ]; then
        CUDA_VISIBLE_DEVICES=$(timeout 20 nvidia-smi --query-gpu=index,compute_cap --format=csv,noheader 2>/dev/null |
            sed -n 's/^\([0-9]*\), *\([0-9.]*\)$/\2 \1/p' | sort -k1,1rV -k2,2n | head -n 1 | cut -d' ' -f2)
        if [ -n "$CUDA_VISIBLE_DEVICES" ]; then export CUDA_VISIBLE_DEVICES; else unset CUDA_VISIBLE_DEVICES; fi
    fi
    gpu_id=${CUDA_VISIBLE_DEVICES:-0}
    gpu_id=${gpu_id%%,*}
}

smi() { # WHAT,...: a line, of the error where it fails
    local said status
    said=$(timeout 20 nvidia-smi -i "$gpu_id" --query-gpu="$1" --format=csv,noheader,nounits 2>/dev/null)
    status=$?
    head -n 1 <<<"$said"
    return $status
}

# arch: as the Makefile wants it; empty: code for all GPUs that it knows.
find_gpu() {
    local said
    choose_gpu
    if ! said=$(smi name,compute_cap,memory.total,driver_version); then
        lacking nvidia-smi "${said:-says nothing}" "code for every GPU is compiled, which takes minutes more; if the GPU does not open, load the driver again"
        return
    fi
    arch=$(smi compute_cap | tr -d '. ')
    [[ $arch =~ ^[0-9]+$ ]] || arch=""
    gpu_mib=$(smi memory.total)
    if [ -n "$arch" ] && [ "$arch" -lt 80 ]; then
        lacking GPU "$said" "limpid needs an sm_80 (A100, RTX 30) or later"
    else
        found GPU "$said"
    fi
    # Of a GPU for one process alone a second one is told that it is busy.
    case $(smi compute_mode) in
    *[Ee]xclusive*) jobs=1 && lacking "compute mode" exclusive "nothing: one process at a time, which takes minutes more" ;;
    esac
}

find_space() {
    local free
    free=$(df --output=avail -B1 "$models" 2>/dev/null | tail -n 1)
    rm -f "$out/no-3b"
    if [[ $gpu_mib =~ ^[0-9]+$ ]] && [ "$gpu_mib" -lt $BIG_MIB ]; then
        lacking memory "$gpu_mib MiB on the GPU" "the 3B shape is left out: it takes $BIG_MIB"
        touch "$out/no-3b"
    fi
    if [ "${free:-0}" -lt $BIG_BYTES ] && [ ! -s "$models/3b-Q4_0.gguf" ]; then
        lacking disk "$((${free:-0} >> 30)) GiB free in $models" "the 3B shape is left out: all models take 20 GiB"
        touch "$out/no-3b"
    else
        found disk "$((${free:-0} >> 30)) GiB free in $models"
    fi
    found processors "$(nproc), $(awk '/^MemAvailable/ { printf "%d GiB free", $2 / 1048576 }' /proc/meminfo)"
}

preflight() {
    local wheel
    nvcc="" cuda="" make_cuda=() arch="" gpu_id=0 gpu_mib="" nvcc_major=""
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
