"""The scripts by which shells complete command lines. Each asks ``redbike completion words``.

The answer is a line ``files`` or ``words``, and then a line for each word: the word, a tab, and what it means. No shell
evaluates what comes from there: bash and fish get each word quoted, zsh quotes it itself.
"""

BASH = r"""
# Completion of redbike for bash: eval "$(redbike completion bash)" in ~/.bashrc
_redbike() {
    local line="${COMP_LINE:0:COMP_POINT}" kind="" word="" current="" breaks="" stem=""
    local -a words=()
    # Before the command there may be variables.
    line="$1${line#*"$1"}"
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current="${words[${#words[@]} - 1]}"
    COMPREPLY=()
    {
        IFS= read -r kind
        while IFS=$'\t' read -r word _; do
            [[ $word == *= ]] && compopt -o nospace 2> /dev/null
            printf -v word %q "$word"
            COMPREPLY+=("$word")
        done
    } < <("${words[0]/#\~/$HOME}" completion words -- "${words[@]:1}" 2> /dev/null)
    breaks="${COMP_WORDBREAKS//[^:=]/}"
    if [[ $kind == files ]]; then
        compopt -o filenames 2> /dev/null
        [[ $current == --*=* ]] && stem="${current%%=*}="
        mapfile -t COMPREPLY < <(compgen -f -- "${current#"$stem"}")
        [[ $stem && $breaks != *=* ]] && COMPREPLY=("${COMPREPLY[@]/#/$stem}")
    elif [[ $breaks ]]; then
        # For bash, the word begins behind the last of these.
        stem="${current%"${current##*[$breaks]}"}"
        COMPREPLY=("${COMPREPLY[@]#"$stem"}")
    fi
}
complete -F _redbike redbike
"""

ZSH = r"""
#compdef redbike
# Completion of redbike for zsh: redbike completion zsh > _redbike, in a folder of $fpath.
_redbike() {
    local kind line word
    local -a lines plain plain_shown open open_shown
    lines=("${(@f)$("${(Q)words[1]}" completion words -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2> /dev/null)}")
    kind="${lines[1]}"
    if [[ $kind == files ]]; then
        compset -P '--*='
        _files
        return
    fi
    for line in "${(@)lines[2,-1]}"; do
        word="${line%%$'\t'*}"
        [[ -z $word ]] && continue
        line="${line/$'\t'/  -- }"
        if [[ $word == *= ]]; then
            open+=("$word") open_shown+=("$line")
        else
            plain+=("$word") plain_shown+=("$line")
        fi
    done
    (( $#plain )) && compadd -l -d plain_shown -a -- plain
    (( $#open )) && compadd -l -S '' -d open_shown -a -- open
}
if [[ $funcstack[1] == _redbike ]]; then
    _redbike "$@"
else
    compdef _redbike redbike
fi
"""

FISH = r"""
# Completion of redbike for fish: redbike completion fish > ~/.config/fish/completions/redbike.fish
function __redbike_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l lines ($words[1] completion words -- $words[2..] "$current" 2> /dev/null)
    if test "$lines[1]" = files
        set -l stem (string match -r -- '^--[^=]*=' "$current")
        for path in (__fish_complete_path (string replace -r -- '^--[^=]*=' '' "$current"))
            printf '%s\n' "$stem$path"
        end
    else if set -q lines[2]
        printf '%s\n' $lines[2..]
    end
end
complete -c redbike -f -a '(__redbike_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
