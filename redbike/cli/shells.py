"""The scripts with which shells complete command lines. Each script calls ``redbike completion words``.

The answer is a line ``files`` or ``words``, and then a line for each word: the word, a tab, and its meaning. No shell
evaluates a word of the answer: the script for bash quotes it, zsh and fish quote it themselves.
"""

BASH = r"""
# Completion of redbike for bash: eval "$(redbike completion bash)" in ~/.bashrc
_redbike() {
    local line="${COMP_LINE:0:COMP_POINT}" kind="" word="" current="" stem="" fixed="" quote="" char="" is_word=""
    local -i position start
    local -a words=() found=()
    # Where the word begins for bash: behind a quote that is open, or behind the last of $COMP_WORDBREAKS.
    start=$((${#line} - ${#2}))
    for ((position = 0; position < ${#line}; position++)); do
        ((position == start)) && fixed="$current"
        char="${line:position:1}"
        if [[ $quote == "'" && $char != "'" ]]; then
            current+="$char"
        elif [[ $char == "\\" && ( ! $quote || ${line:position + 1:1} == [\\\"\$\`] ) ]]; then
            position+=1
            current+="${line:position:1}" is_word=1
        elif [[ $quote ]]; then
            [[ $char == "$quote" ]] && quote="" || current+="$char"
        elif [[ $char == [\"\'] ]]; then
            quote="$char" is_word=1
        elif [[ $char != [[:space:]] ]]; then
            current+="$char" is_word=1
        elif [[ $is_word ]]; then
            words+=("$current")
            current="" is_word=""
        fi
    done
    ((start == position)) && fixed="$current"
    # Before the command there may be variables.
    while [[ ${words[0]-} =~ ^[A-Za-z_][A-Za-z_0-9]*= ]]; do
        words=("${words[@]:1}")
    done
    COMPREPLY=()
    {
        IFS= read -r kind
        while IFS=$'\t' read -r word _; do
            found+=("$word")
        done
    } < <("${words[0]/#\~/$HOME}" completion words -- "${words[@]:1}" "$current" 2> /dev/null)
    if [[ $kind == files ]]; then
        compopt -o filenames 2> /dev/null
        [[ $current == --*=* ]] && stem="${current%%=*}="
        mapfile -t found < <(compgen -f -- "${current#"$stem"}")
        found=("${found[@]/#/$stem}")
    fi
    for word in "${found[@]}"; do
        [[ $word == "$fixed"* ]] || continue
        [[ $kind != files && $word == *= ]] && compopt -o nospace 2> /dev/null
        word="${word:${#fixed}}"
        if [[ $kind == files ]]; then
            : # bash quotes the names of files
        elif [[ $quote == "'" ]]; then
            word="${word//\'/"'\''"}"
        elif [[ $quote ]]; then
            word="${word//\\/\\\\}" word="${word//\"/\\\"}" word="${word//\$/\\\$}" word="${word//\`/\\\`}"
        else
            printf -v word %q "$word"
        fi
        COMPREPLY+=("$word")
    done
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
    # Older ones do not know -x.
    set -l words (commandline -xpc 2> /dev/null; or commandline -opc)
    set -l raw (commandline -ct)
    set -l current "$raw"
    # A quote may be open.
    for mark in '' '"' "'"
        if set -l plain (string unescape -- "$raw$mark")
            set current "$plain"
            break
        end
    end
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
