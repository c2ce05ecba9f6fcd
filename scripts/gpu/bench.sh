# shellcheck shell=bash
# Tokens per second beside the limits of the same run, and what single things take on this GPU. Sourced by
# scripts/check_gpu. A file of figures is written in one move: $out/bench/MODEL.NAME.json.

# Clocks, temperature and power twice a second, for as long as a part takes.
watching=""
watch_clocks() {
    command -v nvidia-smi >/dev/null || { skipped "no nvidia-smi: clocks are what the driver says they may be at most"; return; }
    nvidia-smi -i "$gpu_id" --query-gpu=clocks.sm,clocks.mem,temperature.gpu,power.draw --format=csv,noheader,nounits -lms 500 >>"$out/clocks.csv" 2>/dev/null &
    watching=$!
}
stop_watching() {
    [ -z "$watching" ] || kill "$watching" 2>/dev/null
    watching=""
}

bench_run() { # NAME MODEL SECONDS option...
    local name=$1 model=$2 limit=$3
    step "bench-$model-$name" run_bench "$name" "$model" "$limit" "${@:4}"
    deliver_sometimes
}
run_bench() { # NAME MODEL SECONDS option...
    local name=$1 model=$2 to=$out/bench/$2.$1.json log=$out/logs/bench-$2-$1.log status
    rm -f "$to"
    limited "$3" "$gpu/run" bench "$models/$model.gguf" --json -q "${@:4}" >"$to.part" 2>"$log"
    status=$?
    if [ $status -eq 0 ]; then
        mv "$to.part" "$to"
        say "$model $name"
    else
        rm -f "$to.part"
        fail "bench-$model-$name" "bench $model $name: $(end_text $status "$log")" "$log"
    fi
    return $status
}

each_model() { # FUNCTION: of each model of the benchmark that is there
    local shape type
    watch_clocks
    for shape in "${shapes[@]}"; do
        for type in "${TYPES[@]}"; do
            bench_model "$shape" "$type" || { fail "model-$shape-$type" "$shape-$type was not written" "$out/logs/models.log"; continue; }
            passed "model-$shape-$type"
            "$1" "$shape-$type" "$type"
        done
    done
    stop_watching
}

# ---- the core: nine models, one process each ----

bench_short() { bench_run short "$1" 60 --pp "$short_prompt" --gen "$gen" -r 3; }
part_bench() { each_model bench_short; }

# ---- a token as one launch: LIMPID_CUDA=persistent ----

# The ids of a greedy text are those of a kernel for each step.
check_same_ids() { # MODEL
    local text=("$models/$1.gguf" --prompt-ids "$SIXTEEN" -t 0 --ignore-eos --max-tokens "$greedy" --ids -q) c=$out/compare/$1
    answer "kernel by kernel" "$c.ids" on_gpu "${text[@]}" &&
        LIMPID_CUDA=$one_launch answer "by the persistent kernel" "$c.persistent.ids" on_gpu "${text[@]}" || return
    cmp -s "$c.ids" "$c.persistent.ids" || { say "token $(first_difference "$c.ids" "$c.persistent.ids") differs"; return 1; }
    say "$greedy tokens are the same"
}

bench_persistent() {
    local one_launch=${LIMPID_CUDA:+$LIMPID_CUDA,}persistent
    check_step "persistent-$1" "$1 by the persistent kernel" check_same_ids "$1" || return
    LIMPID_CUDA=$one_launch bench_run persistent "$1" 60 --only decode --gen "$gen" -r 3
}
# The program's own description names the switch where it has an effect.
part_persistent() {
    local device
    device=$(LIMPID_CUDA=${LIMPID_CUDA:+$LIMPID_CUDA,}persistent limited 20 "$gpu/tests/gpu_probes" --open 2>/dev/null)
    if [[ $device =~ LIMPID_CUDA=[a-z,]*persistent ]]; then
        each_model bench_persistent
    else
        skipped "a token as one launch: not with this GPU, its code and LIMPID_CUDA=${LIMPID_CUDA:-}"
    fi
}

# ---- long contexts, long prompts, batches, the start ----

bench_deep() {
    bench_run deep "$1" 90 --only decode --depth "$depths" --gen "$gen" -r 2
    [ "$2" != BF16 ] || bench_run a8 "$1" 90 --pp "$prompts" --only prefill --precision a8 -r 3
    [ "$2" != BF16 ] || bench_run long "$1" 90 --pp "${prompts#*,}" --only prefill -r 2
}
part_depth() { each_model bench_deep; }

# From the start of the process to its first token. The file is in memory: it was just read.
first_token() { # MODEL
    local began=$EPOCHREALTIME
    on_gpu "$models/$1.gguf" --prompt-ids $SIXTEEN -t 0 --ignore-eos --max-tokens 1 --ids -q >/dev/null 2>"$out/logs/first-$1.log" ||
        { fail "first-$1" "the first token of $1: $(end_text $? "$out/logs/first-$1.log")" "$out/logs/first-$1.log"; return 1; }
    awk -v model="$1" -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%s %d\n", model, (b - a) * 1e6 }' >"$out/bench/$1.first"
}

bench_batch() {
    bench_run batch "$1" 60 --only decode --batch "$batches" --gen "$gen" -r 2
    step "first-$1" first_token "$1"
}
part_batch() {
    step first-none first_token none # what no weights take
    each_model bench_batch
}

# ---- calibration ----

calibrate_model() { # SHAPE TYPE: its five kernels, each alone
    program_step "kernels-$1-$2" 60 "the decode kernels of $1-$2" "$gpu/tests/decode_kernels" "$models/$1-$2.gguf"
}

# One layer as ncu sees it: clocks left alone, the kernels of a replayed step launched one by one.
profile_layer() {
    local ncu model=$models/1b-BF16.gguf metrics=gpu__time_duration.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed
    metrics+=,sm__warps_active.avg.pct_of_peak_sustained_active,launch__registers_per_thread
    ncu=$(command -v ncu || first_of "$cuda"/bin/ncu /usr/local/cuda/bin/ncu /opt/nvidia/nsight-compute/*/ncu) ||
        { skipped "no ncu on this machine"; return; }
    LIMPID_CUDA=${without:+$without,}nograph program_step ncu 90 "ncu on one layer" "$ncu" --clock-control none --csv \
        --metrics "$metrics" --launch-skip 200 --launch-count 12 \
        "$gpu/run" "$model" --prompt-ids $SIXTEEN -t 0 --ignore-eos --max-tokens 6 --ids -q
}

part_calibration() {
    local shape type
    [ "$emulated" -eq 1 ] && { skipped "calibration: an emulation has no times"; return; }
    program_step calibrate 30 "calibration" "$gpu/tests/gpu_calibrate" &&
        awk -F'\t' 'NF == 3' "$out/logs/calibrate.log" >"$out/calibration.tsv"
    for shape in 0.6b 1b; do
        for type in "${TYPES[@]}"; do calibrate_model $shape "$type"; done
    done
    cat "$out"/logs/kernels-*.log 2>/dev/null | awk -F'\t' 'NF == 5' >"$out/kernels.tsv"
    profile_layer
}
