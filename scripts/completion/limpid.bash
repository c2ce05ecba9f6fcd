# Completion of limpid for bash: installed as share/bash-completion/completions/limpid. Commands,
# options and their values are those that `limpid --options` prints.
_limpid() {
    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=generate rows commands values
    rows=$("${COMP_WORDS[0]}" --options 2>/dev/null)
    commands=$(awk -F'\t' '$2 == "" { print $1 }' <<<"$rows")
    [ "$COMP_CWORD" -gt 1 ] && grep -qxF -e "${COMP_WORDS[1]}" <<<"$commands" && command=${COMP_WORDS[1]}
    # --option=value is three words.
    if [ "$word" = = ]; then
        word=
    elif [ "$previous" = = ]; then
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    values=$(awk -F'\t' -v command="$command" -v option="$previous" '$1 == command && $2 == option { print $3 }' <<<"$rows")
    [ "$COMP_CWORD $command" = "2 help" ] && values=${commands//$'\n'/|}
    case $values in
    *"|"*)
        COMPREPLY=($(compgen -W "${values//|/ }" -- "$word"))
        return
        ;;
    NUMBER) return ;;
    esac
    if [[ $word == -* && $values != TEXT ]]; then
        COMPREPLY=($(compgen -W "$(awk -F'\t' -v command="$command" -v word="$COMP_CWORD" \
            '($1 == command || ($1 == "" && word == 1)) && $2 ~ /^--/ { print $2 }' <<<"$rows")" -- "$word"))
        return
    fi
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$word") # a name may have spaces
    [ "$COMP_CWORD" -eq 1 ] && COMPREPLY+=($(compgen -W "$commands" -- "$word"))
}
complete -F _limpid limpid
