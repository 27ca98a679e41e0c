#!/bin/sh
# What tests/build/packages.t does as root in bare chroots (tools/bare.sh), where /share is a folder of the test, with the tar
# of make dist. Usage: tests/build/packaged.sh build|install|container|binary
set -eu

export DEBIAN_FRONTEND=noninteractive
apt_get() {
    apt-get -q -y -o Dpkg::Use-Pty=0 -o APT::Install-Recommends=0 "$@"
}
tar=$(echo /share/trine-*.tar.gz)

# The four packages from the tar, by what debian/control asks for and no more; lintian has nothing to say about them.
build() {
    mkdir /build
    tar -xzf "$tar" -C /build
    cd /build/trine-*
    apt_get update
    apt_get install dpkg-dev lintian
    apt_get build-dep .
    dpkg-buildpackage -us -uc
    mv ../*.deb ../*.dsc ../*.changes ../*.buildinfo ../*.tar.* /share/
    lintian --allow-root --no-cfg --display-info --fail-on error,warning,info /share/*.changes
}

# files: all of the system, but for what apt keeps of its own
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /share -o -path /tmp -o -path '/trine*' \
        -o -path /var/lib/apt -o -path /var/cache/apt -o -path /var/log \) -prune -o -print | sort
}

# debs PACKAGE...: their files
debs() {
    for package in "$@"; do ls "/share/${package}_"*.deb; done
}

# An ordinary user trains with what trine brings, and nothing is left of it (/share/left: lines of files that have come or gone).
# Then a program is built with what all the packages bring.
install() {
    all=$(sed -n 's/^Package: //p' debian/control)
    cp -r debian/tests /tmp/tests
    apt_get update
    files >/share/before
    apt_get install "$(debs trine)"
    setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/tmp sh /tmp/tests/train
    apt_get purge trine
    # git, which the chroot has, recommends openssh-client, which openmpi-bin needs.
    apt_get autoremove --purge -o APT::AutoRemove::RecommendsImportant=0 -o APT::AutoRemove::SuggestsImportant=0
    # adduser leaves these, whatever the group: here, of openssh-client.
    files | comm -3 /share/before - | grep -vxE '\s(/etc/gshadow-|/run/adduser)' >/share/left || true
    cat /share/left

    # shellcheck disable=SC2046,SC2086  # split into arguments
    apt_get install $(debs $all) cmake gcc libc6-dev make pkg-config
    sh /tmp/tests/build
    files >/share/with
    grep -q '/libtrine.so.0$' /share/with
    # shellcheck disable=SC2086  # split into arguments
    apt_get purge $all
    files | { ! grep -i trine; }
}

# section NAME: of the container's definition
section() {
    awk -v name="%$1" '/^%/ { inside = $1 == name; next } inside' packaging/apptainer.def
}

# What apptainer does with the definition: its files, %post and %test.
container() {
    cp "$tar" /opt/
    section files | grep -q "build/$(basename "$tar") /opt/$(basename "$tar")$"
    section post >/tmp/post
    section test >/tmp/test
    sh /tmp/post
    cd /
    sh /tmp/test
    [ -z "$(ls /opt)" ]
}

# An ordinary user unpacks make dist-binary's tar and trains, with an MPI library that is there: /share/mpi has bin and lib.
binary() {
    mkdir /tmp/user
    chown 65534 /tmp/user
    setpriv --reuid 65534 --regid 65534 --clear-groups sh -euc '
        tar -xzf /share/trine-*-x86_64.tar.gz -C /tmp/user
        export HOME=/tmp/user LD_LIBRARY_PATH=/share/mpi/lib PATH=$(echo /tmp/user/trine-*/bin):/share/mpi/bin:$PATH LAUNCH=mpirun
        trine-train --version
        sh debian/tests/train'
    ldd --version | head -n 1
}

"$1"
