# shellcheck shell=bash
# Probes, texts and test cases: each a process of its own with a time limit, so that one that hangs or
# reads a wrong address takes nothing with it. Sourced by scripts/check_gpu.

# ---- probes ----

one_probe() { program_step "probe-$1" 20 "the probe $1" "$gpu/tests/gpu_probes" "$1"; }

part_probes() {
    if ! limited 20 "$gpu/tests/gpu_probes" --list >"$out/probes.txt" 2>"$out/logs/probes.log"; then
        fail probes "the probes do not start" "$out/logs/probes.log"
        return
    fi
    passed probes
    side_by_side 4 one_probe <"$out/probes.txt"
    say "$(grep -lx '[a-z0-9]* right' "$out"/logs/probe-*.log 2>/dev/null | wc -l) of $(wc -l <"$out/probes.txt") probes are right"
}

# ---- cases ----

# "test suite/name" for every case of a test program, out of its source.
list_cases() {
    local test
    for test in "${TESTS[@]}"; do
        sed -n "s/^Test(\\([a-z0-9_]*\\), *\\([A-Za-z0-9_]*\\)).*/$test \\1\\/\\2/p" tests/*/test_"$test".c
    done
}

case_id() { say "case-$(tr ' /' '-' <<<"$1")"; }

one_case() { # "test suite/name"
    program_step "$(case_id "$1")" 20 "the test $1" "$gpu/tests/test_${1%% *}" "=${1#* }"
}

tests_text() { # a line for each test program: cases passed, failed, skipped
    local test line id ok bad skips
    for test in "${TESTS[@]}"; do
        ok=0 bad=0 skips=0
        while IFS= read -r line; do
            id=$(case_id "$line")
            case $(step_status "$id") in
            0) if grep -q '^SKIPPED' "$out/logs/$id.log"; then skips=$((skips + 1)); else ok=$((ok + 1)); fi ;;
            "") ;;
            *) bad=$((bad + 1)) ;;
            esac
        done < <(grep "^$test " "$out/cases.txt")
        say "test_$test: $ok passed, $bad failed, $skips skipped"
    done
}

part_cases() {
    local line
    list_cases >"$out/cases.txt"
    side_by_side "$jobs" one_case <"$out/cases.txt"
    tests_text >"$out/tests.txt"
    cat "$out/tests.txt"
    # A failure that a switch takes away names what is wrong.
    while IFS= read -r line; do
        [ -e "$out/failed/$(case_id "$line")" ] || continue
        find_culprit "the test $line" 20 "$gpu/tests/test_${line%% *}" "=${line#* }" && break
    done < <(grep -E '^(passes|decoder) ' "$out/cases.txt")
}

# ---- compute-sanitizer ----

# How the reports of errors begin, without the summary at the end.
sanitizer_errors() { # LOG
    grep -E '^========= (Invalid|Misaligned|Error|Program hit|Uninitialized|Race|Barrier|.*hazard)' "$1" |
        grep -vE "SUMMARY|didn't terminate"
}

one_sanitizer() { # "tool test"
    local log status errors id=sanitizer-${1% *}-${1#* }
    log=$out/logs/$id.log
    ended "$id" && return
    passed "$id"
    limited 25 "$sanitizer" --tool "${1% *}" --error-exitcode 9 "$gpu/tests/test_${1#* }" >"$log" 2>&1
    status=$?
    errors=$(sanitizer_errors "$log" | wc -l)
    case $status in
    0) say "$1: no error" ;;
    124 | 137)
        say "$1: not finished within $(at_most 25) s; $errors errors till then"
        [ "$errors" -eq 0 ] || fail "$id" "compute-sanitizer $1: $(sanitizer_errors "$log" | head -n 1)" "$log"
        ;;
    *) fail "$id" "compute-sanitizer $1: $(status_text $status)" "$log" ;;
    esac
    end_step "$id" $status 0
}

part_sanitizer() {
    local tool test
    [ "$emulated" -eq 1 ] && { skipped "compute-sanitizer: it has no part in an emulation"; return; }
    sanitizer=$(command -v compute-sanitizer || first_of "$cuda"/bin/compute-sanitizer /usr/local/cuda/bin/compute-sanitizer) ||
        { skipped "no compute-sanitizer on this machine"; return; }
    for tool in memcheck racecheck; do
        for test in "${KERNEL_TESTS[@]}"; do
            [ $tool = racecheck ] && [[ $test != kernels && $test != kernels_attention ]] && continue
            say "$tool $test"
        done
    done | side_by_side "$jobs" one_sanitizer | tee -a "$out/sanitizer.txt"
}
