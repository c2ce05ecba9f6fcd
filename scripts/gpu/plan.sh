# shellcheck shell=bash
# How many processes each part starts on the GPU and on the CPU, and how long that is estimated to take:
# no figure here was measured on a GPU. Sourced by scripts/check_gpu.
#
# A process on the GPU takes half a second before it does anything: the driver, the code of all kernels.
# A benchmark adds the upload of the model, 1 to 7 GB, from memory at some 6 GB/s.

CORE_PARTS=5 # of PARTS, the first

# Lines of "part processes side-by-side seconds".
estimates() {
    local models=$((${#shapes[@]} * ${#TYPES[@]})) families=${#FAMILIES[@]} cases small
    cases=$(list_cases | wc -l)
    small=$(list_comparisons | wc -l)
    say "build 12 $(nproc) 90" # 16 processors: ptxas alone takes half a minute for project_few.cu
    say "probes 14 4 5"
    say "texts 12 1 10"
    say "cases $cases $jobs $((cases * 2 / jobs + 2))"
    say "bench $models 1 $((models * 6))"
    say "calibration $((1 + 2 * ${#TYPES[@]} + 1)) 1 35"
    # Tensors: seven programs, three of them on the GPU; texts: four, three on the GPU.
    say "compare $((small * 5 + ${#shapes[@]} * 14 + 19)) $jobs $((small * 3 / jobs + ${#shapes[@]} * 10 + 12))"
    say "sanitizer $((${#KERNEL_TESTS[@]} + 2)) $jobs 60"
    say "depth $((models + 2 * ${#shapes[@]})) 1 $((models * 5 + 2 * ${#shapes[@]} * 3))"
    say "batch $((2 * models + 1)) 1 $((models * 6 + 2))"
}

plan() {
    estimates | awk -v core=$CORE_PARTS '
    BEGIN { printf "| part | processes | side by side | estimated seconds |\n| --- | ---: | ---: | ---: |\n" }
    { printf "| %s | %d | %d | %d |\n", $1, $2, $3, $4; processes += $2; seconds += $4; if (NR <= core) first += $4 }
    END { printf "\n%d processes, an estimated %d seconds, %d of them for the first %d parts.\n", processes, seconds, first, core }'
}
