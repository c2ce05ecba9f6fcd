# shellcheck shell=bash
# What the parts of scripts/check_gpu share: steps with a time limit that are done once, failures that
# are kept, and the report, which is written again after them. Sourced; $out, $gpu, $cpu are set.
#
# All of it is files, so that a run can be killed at any moment and continued:
#   $out/steps/ID    status and seconds of a step that ended, its stamp, its part; written in one move
#   $out/logs/ID.log what it printed
#   $out/failed/ID   a line that says what is wrong, and the end of the log
#   $out/culprit.tsv, $out/without   culprit.sh

say() { printf '%s\n' "$*"; }

# ---- failures ----

fail() { # ID TEXT [LOG]
    local log=${3:-}
    {
        say "$2"
        if [ -n "$log" ] && [ -s "$log" ]; then tail -n 20 "$log" | cut -c1-400 | sed 's/^/    | /'; fi
    } >"$out/failed/$1.part"
    mv "$out/failed/$1.part" "$out/failed/$1"
    say "FAILED: $(cat "$out/failed/$1")"
}

passed() { rm -f "$out/failed/$1"; } # ID

count_failures() { find "$out/failed" -type f ! -name '*.part' | wc -l; }

skipped() { # TEXT
    say "SKIPPED: $*"
    grep -qxF "$*" "$out/$part.skipped" 2>/dev/null || say "$*" >>"$out/$part.skipped"
}

# ---- commands with a time limit ----

at_most() { # SECONDS: or what --limit says
    if [ "$most" -ne 0 ] && [ "$1" -gt "$most" ]; then say "$most"; else say "$1"; fi
}

# A command in the background, so that a signal to this script is heard at once.
limited() { # SECONDS COMMAND...
    timeout -k 3 "$(at_most "$1")" "${@:2}" &
    wait $!
}

on_gpu() { limited "${gpu_limit:-60}" "$gpu/run" "$@"; }
on_cpu() { limited 100 "$cpu/run" "$@"; }

status_text() { # STATUS
    case $1 in
    124 | 137) say "was ended: it had not finished within its time limit" ;;
    13[0-9] | 14[0-9]) say "ended by signal $(($1 - 128))" ;;
    *) say "exit code $1" ;;
    esac
}

# ---- steps ----

# What a step is repeated for: another program.
stamp() { cksum <"$gpu/run" 2>/dev/null || say none; }

ended() { # ID: whether that step has ended before, of this program
    [ -s "$out/steps/$1" ] && [ "$(sed -n 2p "$out/steps/$1")" = "$stamped" ]
}

end_step() { # ID STATUS SECONDS
    printf '%s %s\n%s\n%s\n' "$2" "$3" "$stamped" "$part" >"$out/steps/$1.part"
    mv "$out/steps/$1.part" "$out/steps/$1"
}

step_status() { cut -d' ' -f1 "$out/steps/$1" 2>/dev/null | head -n 1; } # ID

# Runs a command or a function unless it has ended before; returns its status. It begins with no
# failure of that ID, and may leave one.
step() { # ID COMMAND...
    local id=$1 began=$EPOCHREALTIME status
    ended "$id" && return "$(step_status "$id")"
    passed "$id"
    "${@:2}"
    status=$?
    end_step "$id" $status "$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a }')"
    return $status
}

# A program as a step, with its log; its failure is one line.
program_step() { # ID SECONDS WHAT COMMAND...
    step "$1" run_program "$@"
}
run_program() { # ID SECONDS WHAT COMMAND...
    local status log=$out/logs/$1.log
    limited "$2" "${@:4}" >"$log" 2>&1
    status=$?
    [ $status -eq 0 ] || fail "$1" "$3: $(end_text $status "$log")" "$log"
    return $status
}

# What a log says last: of a test that failed, without its counts.
last_line() { grep -vE '^(plain|FAILED [a-z_]*/)' "$1" | tail -n 1 | cut -c1-300; }

# How a program ended and the line of its log that says why: the first error of a compiler, or the last line.
end_text() { # STATUS LOG
    local why
    why=$(grep -m 1 -E 'error *:|undefined reference' "$2" | cut -c1-300)
    why=${why:-$(last_line "$2")}
    say "$(status_text "$1")${why:+: $why}"
}

# A command for its standard output, into FILE. Where it fails, the last line says how and why.
answer() { # WHAT FILE COMMAND...
    local status why=$out/logs/answer.$BASHPID
    "${@:3}" >"$2" 2>"$why"
    status=$?
    cat "$why"
    [ $status -eq 0 ] || say "$1: $(end_text $status "$why")"
    rm -f "$why"
    return $status
}

# A function as a step, which prints on its last line what is wrong.
check_step() { # ID WHAT FUNCTION...
    step "$1" run_check "$@"
}
run_check() { # ID WHAT FUNCTION...
    local status log=$out/logs/$1.log
    "${@:3}" >"$log" 2>&1
    status=$?
    [ $status -eq 0 ] || fail "$1" "$2: $(tail -n 1 "$log")" "$log"
    [ $status -ne 0 ] || say "$2: $(tail -n 1 "$log")"
    return $status
}

# FUNCTION ID for every line of standard input, so many at a time. In a process of its own, which
# ends its children where it is ended itself.
side_by_side() ( # JOBS FUNCTION
    trap 'jobs -p | xargs -r kill 2>/dev/null; exit 143' TERM INT HUP
    running=0
    while IFS= read -r item <&3; do
        if [ $running -ge "$1" ]; then
            wait -n
            running=$((running - 1))
            deliver_sometimes
        fi
        "$2" "$item" 3<&- &
        running=$((running + 1))
    done 3<&0
    wait
)

# ---- the report ----

# Writes it, and copies it and all logs to the directory $OUT where there is one.
deliver() {
    bash scripts/gpu/report "$out" "$gpu" "$emulated" 2>"$out/logs/report.log" || say "the report: $(tail -n 1 "$out/logs/report.log")"
    date +%s >"$out/delivered"
    [ -n "${OUT:-}" ] && [ "$OUT" != "$out" ] || return 0
    cp "$out"/report.{md,json} "$OUT"/ &&
        tar -C "$out" -czf "$OUT/logs.part" --exclude='*.safetensors' --ignore-failed-read logs failed steps compare bench 2>/dev/null
    mv "$OUT/logs.part" "$OUT/logs.tar.gz" 2>/dev/null
}

# After every step, but no more than every five seconds: it takes half of one.
deliver_sometimes() {
    local last
    last=$(cat "$out/delivered" 2>/dev/null)
    [ $(($(date +%s) - ${last:-0})) -lt 5 ] || deliver
}
