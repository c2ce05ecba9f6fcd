# Completion of limpid for bash: installed as share/bash-completion/completions/limpid.
_limpid() {
    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=generate i
    local commands="generate chat bench perplexity tokenize inspect convert selftest attention lens mask view cost replay trace diff"
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ " $commands " == *" ${COMP_WORDS[i]} "* ]] && command=${COMP_WORDS[i]} && break
    done
    case $previous in
    --precision) COMPREPLY=($(compgen -W "f32 a16 a8" -- "$word")) && return ;;
    --machine) COMPREPLY=($(compgen -W "measured a100 h100 h200" -- "$word")) && return ;;
    --type) COMPREPLY=($(compgen -W "f32 f16 bf16 q8_0 q4_0" -- "$word")) && return ;;
    --kv) COMPREPLY=($(compgen -W "f32 f16 bf16" -- "$word")) && return ;;
    --budget) COMPREPLY=($(compgen -W "f32 a16 f16 a8" -- "$word")) && return ;;
    --only) [ "$command" = bench ] && COMPREPLY=($(compgen -W "prefill decode" -- "$word")) && return ;;
    --color)
        COMPREPLY=($(compgen -W "auto always never$([ "$command" = generate ] && echo " surprise")" -- "$word")) && return ;;
    --save-logits | --kl | --out | --svg | --png | --html | --record | --transcript | --model | --grammar | --json-schema) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$word")) && return ;;
    --context-overflow) COMPREPLY=($(compgen -W "stop shift" -- "$word")) && return ;;
    -m) COMPREPLY=($(compgen -W "generate chat" -- "$word")) && return ;;
    esac
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" $command --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+' | sort -u)" -- "$word"))
    else
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -f -- "$word"))
        [ "$COMP_CWORD" -eq 1 ] && COMPREPLY+=($(compgen -W "$commands" -- "$word"))
    fi
}
complete -F _limpid limpid
