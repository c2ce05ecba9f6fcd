# shellcheck shell=bash
# How many processes each part starts on the GPU and on the CPU, and how long that is estimated to take:
# what it took on an H200 beside 16 processors, but for the sanitizer, batches and the persistent kernel, which were not run
# there. Sourced by scripts/check_gpu.

CORE_PARTS=5 # of PARTS, the first

# Lines of "part processes side-by-side seconds".
estimates() {
    local models=$((${#shapes[@]} * ${#TYPES[@]})) families=${#FAMILIES[@]} cases small
    cases=$(list_cases | wc -l)
    small=$(list_comparisons | wc -l)
    say "build 12 $(nproc) 132"
    say "probes 14 4 3"
    say "texts 12 1 4"
    say "cases $cases $jobs $((cases * 2 / jobs + 2))"
    say "bench $models 1 $((models * 4))"
    say "persistent $((models * 3)) 1 $((models * 2))"
    say "calibration $((1 + 2 * ${#TYPES[@]} + 1)) 1 10"
    # Tensors: seven programs, three of them on the GPU; texts: four, three on the GPU.
    say "compare $((small * 5 + ${#shapes[@]} * 14 + 19)) $jobs $((small * 4 / jobs + ${#shapes[@]} * 17 + 13))"
    say "sanitizer $((${#KERNEL_TESTS[@]} + 2)) $jobs 25"
    say "depth $((models + 2 * ${#shapes[@]})) 1 $((models * 6 + 2 * ${#shapes[@]} * 4))"
    say "batch $((2 * models + 1)) 1 $((models * 5 + 2))"
}

plan() {
    estimates | awk -v core=$CORE_PARTS '
    BEGIN { printf "| part | processes | side by side | estimated seconds |\n| --- | ---: | ---: | ---: |\n" }
    { printf "| %s | %d | %d | %d |\n", $1, $2, $3, $4; processes += $2; seconds += $4; if (NR <= core) first += $4 }
    END { printf "\n%d processes, an estimated %d seconds, %d of them for the first %d parts.\n", processes, seconds, first, core }'
}
