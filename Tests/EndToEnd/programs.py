"""Scripts of ordinary programs for test_writers.py. Each runs with `set -e` in an empty folder, gives the same every time,
and finds files to work with in $SAMPLE."""

# What is left has times that the programs set, or the script does.
COPYING = {
    "cp": """
        cp -a "$SAMPLE/." .
        cp -f "$SAMPLE/large" "file 0"
        cp -p --remove-destination "$SAMPLE/file 3" link
        cp -al sub twins
        cp -p --sparse=always --reflink=auto sparse thin
        touch -d @7 "file 0" sub twins .""",
    "install": """
        install -p -m 640 "$SAMPLE/large" a
        install -d -m 2750 d
        install -p -m 444 a d/b
        touch -d @1 d""",
    "mv": """
        cp -a "$SAMPLE" "$SAMPLE-$$"
        mv "$SAMPLE-$$" tree""",
    "rsync": """
        rsync -aHS "$SAMPLE/" tree
        echo tail >>"tree/file 1"
        touch -d @5 "tree/file 1"
        rsync -aH --delete --delay-updates "$SAMPLE/" tree
        rsync -aH --link-dest=../tree "$SAMPLE/" again""",
    "rsync --inplace": """
        head -c 1000000 "$SAMPLE/large" >large
        printf X | dd of=large bs=1 seek=500 conv=notrunc status=none
        rsync -a --inplace --no-whole-file --checksum "$SAMPLE/large" large""",
    "rsync --append": """
        head -c 1000000 "$SAMPLE/large" >large
        rsync -a --append "$SAMPLE/large" large
        head -c 1234567 large >b
        rsync -a --append-verify "$SAMPLE/large" b""",
    "rsync --partial-dir": """
        mkdir .parts
        head -c 1000000 "$SAMPLE/large" >.parts/large
        rsync -a --no-whole-file --partial-dir=.parts "$SAMPLE/large" .""",
    "tar": """
        pax="--format=pax --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime --sort=name"
        tar $pax -cf a.tar -C "$SAMPLE" .
        mkdir out
        tar -xpf a.tar -C out
        tar $pax -rf a.tar -C "$SAMPLE" large
        tar -xpSf a.tar -C out
        tar --delete -f a.tar ./large
        tar -df a.tar -C out
        touch -d @1 a.tar""",
}

WRITING = {
    "dd": """
        from() { dd status=none if="$SAMPLE/large" "$@"; }
        from of=a bs=64k
        from of=a bs=1000 count=7 seek=11 conv=notrunc
        from of=direct bs=4096 count=600 oflag=direct
        from of=direct bs=4096 count=3 seek=100 oflag=direct conv=notrunc,fsync
        from of=holes bs=4096 count=10 seek=1000
        dd status=none if=/dev/zero of=holes bs=4096 count=10 seek=2000 conv=notrunc,sparse
        from of=holes bs=512 skip=9 count=1 seek=90000 conv=notrunc,excl || echo "as it should: $?\"""",
    "truncate and fallocate": """
        cp "$SAMPLE/large" a
        truncate -s -1000 a
        truncate -s +5M a
        fallocate -l 8M a
        fallocate -n -o 8M -l 1M a
        fallocate -p -o 4096 -l 100000 a
        fallocate -z -o 1M -l 70000 a
        fallocate -d a
        stat -c %s a""",
    "shells that append": """
        for i in $(seq 300); do echo "line $i" >>log; done
        for i in $(seq 200); do echo "x$i"; done | tee -a log copy >/dev/null
        wc log copy""",
    "sed, sort, patch": """
        seq 5000 >a
        cp a b
        sed -i.bak s/7/seven/ a
        sort -o b -r b
        diff a.bak a >d || true
        patch -R a <d
        cmp a a.bak""",
    "split": """
        split -b 100000 "$SAMPLE/large" piece.
        cat piece.* >whole
        cmp whole "$SAMPLE/large"
        rm piece.a*""",
    "gzip": """
        cp "$SAMPLE/large" a
        touch -d @1 a
        gzip -k a
        gzip -d <a.gz >b
        gzip -f b
        gunzip b.gz""",
    "a rotated log": """
        echo 1 >log
        exec 5>>log
        echo 2 >&5
        mv log log.1
        echo 3 >&5
        exec 5>>log
        echo 4 >&5
        cp log log.2
        : >log
        echo 5 >&5
        ln log.1 log.3
        rm log.1""",
    "a pipe with a name": """
        mkfifo p
        cat "$SAMPLE/large" >p &
        cat p >out
        wait
        rm p""",
    "flock": """
        echo 0 >n
        for p in 1 2 3; do
          for i in $(seq 15); do flock n.lock bash -c 'read x <n; echo $((x + 1)) >n'; done &
        done
        wait
        cat n""",
    "vim": """
        printf 'one\\ntwo\\n' >text
        chmod 640 text
        vim.tiny -u NONE -es -c "set backup writebackup backupcopy=no" -c "%s/one/1/" -c wq text
        vim.tiny -u NONE -es -c "set backup backupcopy=yes" -c "normal Go3" -c x text
        vim.tiny -u NONE -es -c "normal ggdd" -c "w! other" -c "saveas third" -c q text
        tail text other third
        ls -A""",
    "an atomic save": """
        for i in 1 2 3; do
          new="$(mktemp .doc.XXXXXX)"
          echo "version $i" >"$new"
          sync "$new"
          chmod 644 "$new"
          mv "$new" doc
        done
        cat doc
        ls -A""",
    "a save with a backup": """
        echo 1 >doc
        for i in 2 3; do mv doc doc~; echo "version $i" >doc; sync doc; done
        rm doc~""",
    "a download": """
        head -c 1000000 "$SAMPLE/large" >film.mov.crdownload
        tail -c +1000001 "$SAMPLE/large" >>film.mov.crdownload
        mv film.mov.crdownload film.mov""",
    "Python": """
        /usr/bin/python3 - <<'END'
import os, shutil, tempfile, zipfile

for number in range(5):
    with zipfile.ZipFile("a.zip", "a") as archive:
        archive.writestr(zipfile.ZipInfo(f"m{number}"), bytes(range(256)) * 300)
for number in range(2000):
    open("many", "r+b" if number else "wb").close()
with tempfile.NamedTemporaryFile(dir=".", delete=False) as file:
    file.write(b"x" * 9999)
os.replace(file.name, "named")
with tempfile.TemporaryFile(dir=".") as file:
    file.write(b"gone")
    file.seek(0)
    print(file.read())
shutil.copytree(os.environ["SAMPLE"] + "/sub", "sub", symlinks=True)
END""",
}

# Files that are whole for a moment under names which are not among the temporary ones: they may be published.
PASSING = {
    "rsync": r"^tree/file 1$",
    "rsync --partial-dir": r"^\.parts/",
    # Empty files where links that leave the tree will be.
    "tar": r"/sub/link$",
    "sed, sort, patch": r"^(sed|p[oi]|a\.o)\w{6}$",
    "split": r"^piece\.a",
    "gzip": r"^b(\.gz)?$",
    "a rotated log": r"^log\.1$",
    # Its probe for whether it may create files beside this one.
    "vim": r"^4913$",
    "Python": r"^tmp\w{8}$",
}
