# shellcheck shell=bash
# Which part of the backend is wrong: where a command fails, it is run again with everything turned off
# that LIMPID_CUDA can turn off, then with one part on again at a time. What breaks it is left out of
# all that follows. Sourced by scripts/check_gpu.
#
#   $out/culprit.tsv   what was run, LIMPID_CUDA, right or WRONG
#   $out/without       the switches that all later commands run with
#   $out/searches      how many searches there were
#   $out/searched      the stamp of the program of which all this is true

SWITCHES=(nograph nofuse nopdl noprefetch notiles noblas nofew nofeed sync)
MOST_SEARCHES=3

join_commas() { local IFS=, && say "$*"; }

all_but() { # NAME...: the switches without these
    local name rest=()
    for name in "${SWITCHES[@]}"; do
        [[ " $* " == *" $name "* ]] || rest+=("$name")
    done
    join_commas "${rest[@]}"
}

# Whether the command is right with these switches.
is_right_with() { # SWITCHES: of $what, $limit and $command
    local status log=$out/logs/culprit-$searches-${1:-none}.log said=right
    (
        export LIMPID_CUDA=$1
        # A function has its own limits, for each program that it runs.
        gpu_limit=$limit
        if declare -F "${command[0]}" >/dev/null; then "${command[@]}"; else limited "$limit" "${command[@]}"; fi
    ) >"$log" 2>&1
    status=$?
    [ $status -eq 0 ] || said="WRONG: $(end_text $status "$log" | tr -d '\t')"
    printf '%s\t%s\t%s\n' "$what" "$1" "$said" >>"$out/culprit.tsv"
    return $status
}

# Sets `culprit`. 1: with everything off it is wrong too; 2: with everything on it is right now.
search() {
    local name on=()
    is_right_with "$(all_but)" || return 1
    for name in "${SWITCHES[@]}"; do
        [[ ",$without," != *",$name,"* ]] || continue
        is_right_with "$(all_but "$name")" || { culprit=$name; return 0; }
    done
    # No part alone: one after the other, until it breaks.
    for name in "${SWITCHES[@]}"; do
        [[ ",$without," != *",$name,"* ]] || continue
        on+=("$name")
        is_right_with "$(all_but "${on[@]}")" || { culprit=$name; return 0; }
    done
    return 2
}

part_name() { # SWITCH
    case $1 in
    nograph) say "CUDA graphs (kernels/cuda/recording.cu)" ;;
    nofuse) say "fused kernels (kernels/cuda/fused.cu)" ;;
    nopdl) say "programmatic launches (wait_for_earlier_kernels)" ;;
    noprefetch) say "what is read ahead of the wait (project_one.cu)" ;;
    notiles) say "attention on the tensor cores (kernels/cuda/attention_tiles.cu)" ;;
    noblas) say "products by cuBLASLt (kernels/cuda/project/blas.cu)" ;;
    nofew) say "products of few rows (kernels/cuda/project/project_few.cu)" ;;
    nofeed) say "sampled tokens on their way to the host and to the next pass (kernels/cuda/feedback.cu)" ;;
    sync) say "something that is not waited for: it is right only where the host waits behind every launch" ;;
    esac
}

go_without() { # NAME...
    without=$(join_commas ${without:+"$without"} "$@")
    say "$without" >"$out/without"
    export LIMPID_CUDA=$without
}

# What was found of this program is still true; of one that was built anew nothing is known.
go_on_without() {
    if [ "$(cat "$out/searched" 2>/dev/null)" != "$(stamp)" ]; then
        rm -f "$out"/{without,searches,searched,culprit.tsv} "$out"/failed/culprit-*
    fi
    without=$(cat "$out/without" 2>/dev/null) || without=""
    [ -z "$without" ] || export LIMPID_CUDA=$without
}

# Names it, and goes on without it. False: nothing that can be left out.
find_culprit() { # WHAT SECONDS COMMAND..., a program or a function
    local what=$1 limit=$2 command=("${@:3}") searches
    culprit=""
    searches=$(($(cat "$out/searches" 2>/dev/null || echo 0) + 1))
    [ "$searches" -le $MOST_SEARCHES ] || return 1
    say "$searches" >"$out/searches"
    stamp >"$out/searched"
    say "looking for what breaks $what"
    search
    case $? in
    1) fail culprit-$searches "$what is wrong with everything plain too: a kernel itself. $(tail -n 1 "$out/culprit.tsv" | cut -f3)" ;;
    2) fail culprit-$searches "$what was right when it was run again, with everything on: a race, or chance" ;;
    0)
        fail culprit-$searches "$what is broken by $(part_name "$culprit"); all that follows is measured without it: LIMPID_CUDA=$culprit"
        go_without "$culprit"
        return 0
        ;;
    esac
    return 1
}
