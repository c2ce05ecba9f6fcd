#compdef limpid
# Completion of limpid for zsh: installed as share/zsh/site-functions/_limpid. Commands, options and
# their values are those that `limpid --options` prints.
local command=generate previous=${words[CURRENT - 1]} line name option value
local -a rows fields commands options
local -A values
rows=("${(@f)$(${words[1]} --options 2>/dev/null)}")
for line in $rows; do
    fields=("${(@ps:\t:)line}")
    [[ -z $fields[2] ]] && commands+=("$fields[1]:$fields[3]")
done
for name in ${words[2,CURRENT - 1]}; do
    (( ${commands[(I)$name:*]} )) && command=$name && break
done
for line in $rows; do
    fields=("${(@ps:\t:)line}")
    [[ $fields[1] == $command && -n $fields[2] ]] || continue
    values[$fields[2]]=$fields[3]
    [[ $fields[2] == --* ]] && options+=($fields[2])
done
value=$values[$previous]
if [[ $value == *'|'* ]]; then
    compadd -- ${(s:|:)value}
elif [[ $value == NUMBER ]]; then
    _message number
elif [[ $words[CURRENT] == -* && $value != TEXT ]]; then
    compadd -- $options
else
    (( CURRENT == 2 )) && _describe command commands
    _files
fi
