# shellcheck shell=bash
# CPU against GPU: tensors of a prompt, and texts. Sourced by scripts/check_gpu. Each check is a function
# that prints what is wrong on its last line; what it measured is in $out/compare:
#
#   NAME.txt, NAME.json   diff's, of every tensor of a prompt
#   NAME.greedy.json      diff's, of the logits of a greedy text
#   NAME.text             tokens of the prompt, of the text, then of the host, the trace and the CPU: the
#                         number of the first token that differs (0: none) and the gap there
#   NAME.at_once          precision, largest difference, values

# Rows of thousands of products, 28 layers deep: even the cpu and reference backends differ by 2.1e-5
# at 0.6B, and diff allows 3e-5 in float32.
DEEP_BUDGET=1e-4
CLEAR_GAP=0.05 # of two logits: the larger one is clearly the choice

# ---- tensors ----

trace_both() { # FILE OUT option...
    answer "the CPU's trace" /dev/null on_cpu trace "$1" "${@:3}" -q --force -o "$2.cpu.safetensors" &&
        answer "the GPU's trace" /dev/null on_gpu trace "$1" "${@:3}" -q --force -o "$2.gpu.safetensors"
}

# Compares every tensor of a prompt with the CPU's, then a greedy text. BUDGET "": diff's. While every
# tensor is written, no operations are fused.
compare_model() { # NAME FILE PROMPT BUDGET option...
    local name=$1 file=$2 prompt=$3 c=$out/compare/$1 status budget=(${4:+--budget "$4"})
    shift 4
    trace_both "$file" "$c" --prompt-ids "$prompt" "$@" || return
    on_cpu diff "$c".{cpu,gpu}.safetensors -q --all "${budget[@]}" >"$c.txt"
    status=$?
    sed -i '/^The first/s/ in A, \(.*\) in B\([;,]\)/ on the CPU, \1 on the GPU\2/' "$c.txt"
    on_cpu diff "$c".{cpu,gpu}.safetensors -q --json "${budget[@]}" >"$c.json"
    if [ $status -eq 0 ]; then
        trace_both "$file" "$c" --prompt-ids "$prompt" -n "$greedy" --only lm_head --only logits "$@" || return
        on_cpu diff "$c".{cpu,gpu}.safetensors -q --json >"$c.greedy.json"
        awk -v clear=$CLEAR_GAP 'match($0, /"gap_a":[^,}]*/) { exit (substr($0, RSTART + 8, RLENGTH - 8) + 0 > clear) }' "$c.greedy.json" ||
            { say "greedy texts differ where the choice was clear: $(cat "$c.greedy.json")"; status=1; }
    fi
    rm -f "$c".{cpu,gpu}.safetensors
    [ $status -ne 0 ] && [ -s "$c.greedy.json" ] || tail -n 1 "$c.txt"
    return $status
}

# ---- texts ----

# The ids behind the prompt, out of a trace.
traced_ids() { # TRACE PROMPT COUNT
    local header
    header=$(od -An -tu8 -N8 "$1")
    od -An -v -w8 -td8 -j$((8 + header)) "$1" 2>/dev/null | sed "s/ //g; $(($(tr -cd , <<<"$2" | wc -c) + 1 + $3))q" | tail -n "$3"
}

# The number of the first line in which two files differ; 0: none.
first_difference() {
    paste "$1" "$2" | awk -F'\t' '$1 != $2 { print NR; found = 1; exit } END { if (!found) print 0 }'
}

# The gap between the best token of a line of --logprobs 2 and the id; 9 where the id is not second.
gap_at() { # FILE LINE ID
    sed -n "$2p" "$1" | awk -v id="$3" '{
        n = split($0, part, /"id":/)
        for (i = 3; i <= n; i++) { split(part[i], p, /[,}]/); split(part[i], l, /"logprob":/); value[p[1]] = l[2] + 0; if (i == 3) best = l[2] + 0 }
        print (id in value) ? best - value[id] : 9
    }'
}

whose_text() { # of which file
    case $1 in
    host) say "the one that the host samples" ;;
    traced) say "the one of a trace" ;;
    cpu) say "the CPU's" ;;
    esac
}

gap_text() { # GAP
    if [ "$1" = 9 ]; then say "where one has a token that is not among the two best"; else say "where the two best are $1 apart"; fi
}

ids_of() { sed 's/^{"id":\([0-9]*\).*/\1/' "$1"; } # lines of --logprobs

run_texts() { # FILE PROMPT T option...: T.gpu, T.host.all, T.cpu.all, T.trace
    local file=$1 prompt=$2 t=$3
    local text=(--prompt-ids "$prompt" --ignore-eos --max-tokens "$greedy" -q "${@:4}")
    answer "the CPU's text" "$t.cpu.all" on_cpu "$file" "${text[@]}" -t 0 --logprobs 2 &&
        answer "the GPU's text" "$t.gpu" on_gpu "$file" "${text[@]}" -t 0 --ids &&
        answer "the GPU's text, sampled by the host" "$t.host.all" on_gpu "$file" "${text[@]}" -t 0 --logprobs 2 &&
        answer "the GPU's trace" /dev/null on_gpu trace "$file" --prompt-ids "$prompt" -n "$greedy" --only lm_head "${@:4}" -q --force -o "$t.trace"
}

# The GPU's texts behind a prompt, made as `generate` makes them: kernels fused, graphs replayed, tokens
# sampled on the GPU. The ids must be the same where the host samples them, and with a listener at
# every stage; they may differ from the CPU's where its choice was not clear.
compare_texts() { # NAME FILE PROMPT option...
    local name=$1 file=$2 prompt=$3 t=$out/compare/$1.$BASHPID who at gap line choice other wrong=""
    run_texts "$file" "$prompt" "$t" "${@:4}" || { rm -f "$t".*; return 1; }
    for who in host cpu; do ids_of "$t.$who.all" >"$t.$who"; done
    traced_ids "$t.trace" "$prompt" "$greedy" >"$t.traced"
    line="$name	$(tr -cd , <<<"$prompt," | wc -c)	$(wc -l <"$t.gpu")"
    [ "$(wc -l <"$t.gpu")" -eq "$greedy" ] || wrong="a text of $(wc -l <"$t.gpu") tokens, not $greedy"
    for who in host traced cpu; do
        at=$(first_difference "$t.gpu" "$t.$who") gap=0
        if [ "$at" -ne 0 ]; then
            # Logits: of that text's own program where it has them. The other text's token among them.
            choice=$t.host.all other=$t.gpu
            [ $who != cpu ] || choice=$t.cpu.all
            [ $who != traced ] || other=$t.traced
            gap=$(gap_at "$choice" "$at" "$(sed -n "${at}p" "$other")")
            [ $who != host ] && awk -v gap="$gap" -v clear=$CLEAR_GAP 'BEGIN { exit !(gap <= clear) }' ||
                wrong=${wrong:-"the text sampled on the GPU and $(whose_text $who) differ at token $at, $(gap_text "$gap")"}
        fi
        line+="	$at	$gap"
    done
    rm -f "$t".*
    # While a culprit is looked for, what was found first stays.
    [ -n "${searches:-}" ] || printf '%s\n' "$line" >"$out/compare/$name.text"
    say "${wrong:-$greedy tokens are the same}"
    [ -z "$wrong" ]
}

# At random too: the host samples the same ids.
compare_random() { # NAME FILE PROMPT
    local t=$out/compare/$1 text=(--prompt-ids "$3" --ignore-eos --max-tokens "$greedy" -q -t 0.8 -s 1)
    answer "a random text" "$t.gpu" on_gpu "$2" "${text[@]}" --ids &&
        answer "a random text, sampled by the host" "$t.host" on_gpu "$2" "${text[@]}" --logprobs 1 || return
    ids_of "$t.host" | cmp -s - "$t.gpu" || { say "at random, the text sampled on the GPU is not the host's"; return 1; }
    rm -f "$t".{gpu,host}
    say "random texts are the same"
}

# The difference of a prompt in one pass from the same token by token: reported, with no bound.
compare_at_once() { # NAME FILE PRECISION
    local said
    said=$(on_gpu selftest "$2" --prompt-ids "$AT_ONCE" --precision "$3" --json -q)
    said=$(awk 'match($0, /"check":"at_once"[^}]*/) { print substr($0, RSTART, RLENGTH) }' <<<"$said")
    [ -n "$said" ] || { say "selftest says nothing"; return 1; }
    printf '%s\t%s\t%s\t%s\n' "$1" "$3" "$(sed 's/.*"largest_difference":\([^,]*\).*/\1/' <<<"$said")" \
        "$(sed 's/.*"values":\([0-9]*\).*/\1/' <<<"$said")" >"$out/compare/$1-$3.at_once"
    say "$said"
}

# ---- the parts ----

# The first texts: what a user would see. One that is wrong is looked into at once.
part_texts() {
    local name file
    for name in builtin llama-BF16 llama-Q8_0; do
        file=$models/$name.gguf
        case $name in
        builtin) file=weights/builtin.gguf ;;
        *) family_model "${name%-*}" "${name#*-}" ;;
        esac
        [ $name = llama-BF16 ] || [ "$emulated" -eq 0 ] || continue
        check_step "text-$name" "$name" compare_texts "$name" "$file" "$SIXTEEN" && continue
        find_culprit "the text of $name" 10 compare_texts "$name" "$file" "$SIXTEEN" || continue
        check_step "text-$name-without-$culprit" "$name, without $culprit" compare_texts "$name" "$file" "$SIXTEEN"
    done
}

# "kind name": what there is to compare, the small ones first.
list_comparisons() {
    local family type precision
    for family in "${FAMILIES[@]}"; do say "exact $family F32"; done
    for type in BF16 F16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1; do
        [ "$emulated" -eq 1 ] && [ $type != BF16 ] || say "short llama $type"
    done
    for family in "${FAMILIES[@]}"; do
        [ "$emulated" -eq 1 ] && [ "$family" != llama ] || printf '%s\n' "long $family BF16" "text $family BF16"
    done
    say "longtext llama BF16"
    say "random llama BF16"
    for precision in a16 f32 a8; do
        [ "$emulated" -eq 1 ] && [ $precision != a16 ] || say "at_once llama BF16 $precision"
    done
    [ "$emulated" -eq 1 ] || printf '%s\n' "long llama Q8_0" "long llama Q4_0" "at_once llama Q8_0 a16" "at_once llama Q8_0 a8"
}

one_comparison() { # "kind family type [precision]"
    local kind family type precision name file exact=(--precision f32 --kv f32)
    read -r kind family type precision <<<"$1"
    name=$family-$type file=$models/$family-$type.gguf
    family_model "$family" "$type"
    case $kind in
    exact) check_step "compare-$name" "$name" compare_model "$name" "$file" "$PROMPT" "" "${exact[@]}" ;;
    short) check_step "compare-$name" "$name" compare_model "$name" "$file" "$PROMPT" "" ;;
    long) check_step "compare-$name-long" "$name-long" compare_model "$name-long" "$file" "$LONG" "" ;;
    text) check_step "texts-$name" "$name" compare_texts "$name" "$file" "$PROMPT" ;;
    longtext) check_step "texts-$name-long" "$name-long" compare_texts "$name-long" "$file" "$LONG" ;;
    random) check_step "random-$name" "$name" compare_random "$name-random" "$file" "$PROMPT" ;;
    at_once) check_step "at-once-$name-$precision" "$name, $precision, a prompt at once" compare_at_once "$name" "$file" "$precision" ;;
    esac
}

# A model that fills the GPU and the processors: one at a time.
compare_large() { # SHAPE
    local exact=(--precision f32 --kv f32)
    bench_model "$1" BF16 && check_step "compare-$1-BF16" "$1-BF16" compare_model "$1-BF16" "$models/$1-BF16.gguf" "$PROMPT" $DEEP_BUDGET "${exact[@]}"
    bench_model "$1" Q8_0 && check_step "compare-$1-Q8_0" "$1-Q8_0" compare_model "$1-Q8_0" "$models/$1-Q8_0.gguf" "$PROMPT" ""
}

part_compare() {
    local shape trained=../shared/data/stories260K/stories260K.gguf
    list_comparisons | side_by_side "$jobs" one_comparison
    for shape in "${shapes[@]}"; do compare_large "$shape"; done
    if [ "$emulated" -eq 0 ]; then
        check_step texts-0.6b-BF16 0.6b-BF16 compare_texts 0.6b-BF16 "$models/0.6b-BF16.gguf" "$LONG"
        check_step texts-0.6b-Q8_0 0.6b-Q8_0 compare_texts 0.6b-Q8_0 "$models/0.6b-Q8_0.gguf" "$PROMPT"
        check_step texts-0.6b-Q4_0 0.6b-Q4_0 compare_texts 0.6b-Q4_0 "$models/0.6b-Q4_0.gguf" "$PROMPT"
        check_step compare-0.6b-BF16-long 0.6b-BF16-long compare_model 0.6b-BF16-long "$models/0.6b-BF16.gguf" "$LONG" ""
        if [ ! -r $trained ]; then
            skipped "a trained model: no $trained"
        else
            check_step compare-stories260K stories260K compare_model stories260K $trained "$PROMPT" "" --precision f32 --kv f32
        fi
    fi
    look_into_texts
}

# Of the texts that only this part has, the first that is wrong.
look_into_texts() {
    local name prompt
    for name in "${FAMILIES[@]}"; do
        prompt=$PROMPT
        [ -e "$out/failed/texts-$name-BF16" ] || continue
        find_culprit "the text of $name-BF16" 10 compare_texts "$name-BF16" "$models/$name-BF16.gguf" "$prompt"
        return
    done
}
