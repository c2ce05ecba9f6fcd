# Completion of limpid for fish: installed as share/fish/vendor_completions.d/limpid.fish. Commands,
# options and their values are those that `limpid --options` prints.
function __limpid_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l rows ($words[1] --options 2>/dev/null)
    set -l command generate
    set -l commands
    set -l options
    set -l value
    for row in $rows
        set -l fields (string split \t -- $row)
        test -z "$fields[2]"; and set -a commands $fields[1]
    end
    set -q words[2]; and contains -- $words[2] $commands; and set command $words[2]
    set -l previous $words[-1]
    set -l begun '' # of --option=value
    if string match -q -- '--*=*' $word
        set previous (string replace -r '=.*' '' -- $word)
        set begun $previous=
    end
    for row in $rows
        set -l fields (string split \t -- $row)
        test "$fields[1]" = $command; or test -z "$fields[1]" -a (count $words) -eq 1; or continue
        if test -z "$fields[2]"
            continue
        else if test "$fields[2]" = "$previous"
            set value $fields[3]
        end
        string match -q -- '--*' $fields[2]; and set -a options $fields[2]
    end
    test "$command" = help -a (count $words) -eq 2; and set value (string join '|' $commands)
    if string match -q '*|*' -- "$value"
        printf '%s\n' "$begun"(string split '|' -- $value)
    else if test "$value" = NUMBER
        return
    else if string match -q -- '-*' $word; and test "$value" != TEXT
        printf '%s\n' $options
    else
        test (count $words) -eq 1; and string match -r '^[^\t]*\t\t.*' -- $rows | string replace -r '\t\t' '\t'
        __fish_complete_path $word
    end
end
complete -c limpid -f -a '(__limpid_complete)'
