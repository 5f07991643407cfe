"""A test suite of shell scripts, with the report that its runner writes."""

from gates import check

RUNNER = """\
mkdir -p out
for each in tests/*.sh; do
    case="<testcase classname=\\"$each\\" name=\\"it\\" file=\\"$each\\""
    if sh "$each"; then echo "$case/>"; else echo "$case><failure message=\\"no\\"/></testcase>"; touch out/red; fi
done > out/cases
{ echo "<testsuite>"; cat out/cases; echo "</testsuite>"; } > out/report.xml
test ! -e out/red
"""
TEST = check("sh ci/run-tests.sh", reports=("out/*.xml",))
A, B, C = (f"tests/{name}.sh::it" for name in "abc")
