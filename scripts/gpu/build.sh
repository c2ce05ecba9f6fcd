# shellcheck shell=bash
# Builds for the GPU and for the CPU beside it, and writes the models: random weights, made where they
# are not there yet. Sourced by scripts/check_gpu.

make_model() { # NAME random_model-argument...
    local file=$models/$1.gguf
    [ -s "$file" ] && return
    limited 200 "$cpu/tests/random_model" "${@:2}" "$file.$BASHPID.part" 2>>"$out/logs/models.log" &&
        mv "$file.$BASHPID.part" "$file"
}

family_model() { # FAMILY TYPE: tiny, with what is special to the family
    local name=$1 family=$1 more=() heads=4 size=(--dim 64 --hidden 96 --layers 7)
    [ "$emulated" -eq 1 ] && heads=2 size=(--dim 32 --hidden 64 --layers 1)
    case $1 in
    mistral) family=llama more=(--window 8) ;;
    gemma3) more=(--window 8) ;; # in six layers of seven
    nanochat) more=(--softcap 15) ;;
    gpt2) more=(--kv-heads $heads) ;;
    esac
    make_model "$name-$2" --family "$family" "${size[@]}" --heads $heads --kv-heads $((heads / 2)) \
        --head-dim 32 --vocab 320 --ctx 256 --type "$2" "${more[@]}"
}

bench_model() { # SHAPE TYPE
    local shape=(--shape "$1")
    [ "$1" = tiny ] && shape=(--dim 32 --hidden 32 --layers 1 --heads 2 --kv-heads 1 --head-dim 16 --vocab 320 --ctx 64)
    make_model "$1-$2" "${shape[@]}" --type "$2"
}

# Those of 3B alone are 12 GB.
write_models() {
    local shape type
    make_model none --dim 32 --hidden 32 --layers 1 --heads 1 --kv-heads 1 --head-dim 32 --vocab 320 --ctx 64 --type F32
    for shape in "${shapes[@]}"; do
        for type in "${TYPES[@]}"; do bench_model "$shape" "$type" & done
        wait
    done
}

run_make() { # ID make-argument...
    limited 900 make -k -j"$(nproc)" "${CORE[@]}" "${@:2}" >"$out/logs/$1.log" 2>&1 ||
        { fail "$1" "$1: $(end_text $? "$out/logs/$1.log")" "$out/logs/$1.log"; return 1; }
    passed "$1"
}

build_gpu() {
    local tests=("${TESTS[@]/#/$gpu/tests/test_}")
    tests+=("$gpu/tests/gpu_probes")
    [ "$emulated" -eq 1 ] || tests+=("$gpu"/tests/{gpu_calibrate,decode_kernels})
    run_make build-gpu BACKEND=cuda EMULATED="$emulated" "${make_cuda[@]}" ${arch:+GPU_ARCHS="$arch"} all "${tests[@]}"
}

can_build() { [ "$built" -eq 0 ] && command -v make >/dev/null && command -v gcc >/dev/null; }

# Every start calls make: where nothing has changed it takes a second.
part_build() {
    local writing
    if can_build; then run_make build-cpu all "$cpu/tests/random_model"; fi
    write_models &
    writing=$!
    if can_build && [ -n "$nvcc" -o "$emulated" -eq 1 ]; then build_gpu; fi
    wait "$writing"
    if limited 60 "$gpu/run" --version >"$out/version.txt" 2>"$out/logs/version.log"; then
        passed start
    else
        fail start "$gpu/run does not start: $(end_text $? "$out/logs/version.log")" "$out/logs/version.log"
        return 1
    fi
    # Too old a driver or none is not the fault of a kernel.
    passed open
    [ -x "$gpu/tests/gpu_probes" ] || return
    limited 60 "$gpu/tests/gpu_probes" --open >"$out/logs/open.log" 2>&1 ||
        { fail open "the GPU cannot be opened: $(end_text $? "$out/logs/open.log")" "$out/logs/open.log"; return 1; }
}
