#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/nccl-topology on dumps in the form in which NCCL writes them: what the compiler makes of the cluster file is what it
makes of the one in plans/library that was written by hand.  Usage: topology.py TOOL RESHARDC LIBRARY"""
import os
import re
import subprocess
import sys
import tempfile

TOOL, RESHARDC, LIBRARY = (os.path.abspath(a) for a in sys.argv[1:4])
failed = 0


def gpu(dev, rank, links, sm, target='ffffffff:ff:ff.f', tclass='0x068000'):
    return (f'<gpu dev="{dev}" sm="{sm}" rank="{rank}" gdr="1" mlopart="0">'
            f'<nvlink target="{target}" count="{links}" tclass="{tclass}"/><c2c bw="38280" count="10"/></gpu>')


def net(dev, speed=400000, extra=''):
    return (f'<nic><net name="mlx5_{dev}" dev="{dev}" latency="0" speed="{speed}" port="1" guid="0x{dev + 1:x}ec0b8e03f7ce59c" '
            f'maxconn="131072" gdr="1"{extra}/></nic>')


def pci(bus, class_, inside):
    return (f'<pci busid="0000:{bus:02x}:00.0" class="{class_}" vendor="0x10de" device="0x2330" subsystem_vendor="0x10de" '
            f'subsystem_device="0x16c1" link_speed="32.0 GT/s PCIe" link_width="16">{inside}</pci>')


def cpu(numa, host, inside):
    return (f'<cpu host_hash="0x{host:x}" numaid="{numa}" affinity="00000000,ffffffff" arch="x86_64" vendor="GenuineIntel" '
            f'familyid="6" modelid="143">{inside}</cpu>')


def host(number, gpus=8, nets=8, links=18, sm=90, speed=400000, extra_net=''):
    """Two sockets; behind each a PCI switch per GPU, with the NIC beside it where there is one."""
    sockets = ['', '']
    for i in range(gpus):
        inside = pci(16 + 2 * i, '0x030200', gpu(i, number * gpus + i, links, sm))
        if i % (gpus // nets) == 0:
            inside += pci(17 + 2 * i, '0x020700', net(i // (gpus // nets), speed))
        sockets[i * 2 // gpus] += pci(100 + i, '0x060400', inside)
    return cpu(0, number + 0x5a5a, sockets[0] + extra_net) + cpu(1, number + 0x5a5a, sockets[1])


def system(*hosts):
    return '<system version="1">\n' + '\n'.join(hosts) + '\n</system>\n'


def run(*args, cwd):
    p = subprocess.run(args, cwd=cwd, capture_output=True, text=True, timeout=60)
    return p.returncode, p.stdout, p.stderr


def expect(what, good, said=''):
    global failed
    print(f'{"ok  " if good else "FAIL"} {what}{"" if good else ": " + str(said)}')
    failed += not good


def dumped(d, cluster, ranks):
    """The compiler's own words for a cluster, with as many ranks a side."""
    for side in ('train', 'infer'):
        with open(os.path.join(d, side), 'w') as f:
            f.write(f'tensor "w" u8 [{ranks}]; mesh m [x: {ranks}]; on m {{ buffer "w" = "w"[_ @x]; }}\n')
    status, out, err = run(RESHARDC, 'train', 'infer', '-o', 'plan', '--cluster', cluster, '--dump=cluster', cwd=d)
    return out if status == 0 else f'{status} {err}'


def same(what, d, ranks, library, *args):
    status, out, err = run(TOOL, *args, cwd=d)
    with open(os.path.join(d, 'made.yaml'), 'w') as f:
        f.write(out)
    made, by_hand = dumped(d, 'made.yaml', ranks), dumped(d, os.path.join(LIBRARY, 'clusters', library), ranks)
    # What NCCL does not say is taken from the generation, a little more exactly than by hand: memory.
    made, by_hand = (re.sub(r'memory \d+', 'memory', text) for text in (made, by_hand))
    expect(what, status == 0 and made == by_hand and made.count('\nhost ') > 1, err or made[:600] + '\n' + by_hand[:600])


def refused(what, words, d, *args):
    status, out, err = run(TOOL, *args, cwd=d)
    expect(what, status == 1 and not out and words in err, (status, err))


def main():
    collective = net(9, 200000, ' net="0" coll="1"')
    files = {'h100.xml': system(host(0, extra_net=collective)),
             'half.xml': system(host(0, nets=4)),
             'rack.xml': system(*(host(i, gpus=4, nets=4, sm=100) for i in range(18))),
             'slow.xml': system(host(0, speed=200000)),
             'mixed.xml': system(host(0, speed=400000, extra_net=net(9, 100000))),
             'pcie.xml': system(host(0, links=0)),
             'no.xml': '<system version="1"></system>', 'broken.xml': '<system version="1"><cpu>'}
    ends = ('--train', 't0', '--infer', 'i0')
    with tempfile.TemporaryDirectory() as d:
        for name, text in files.items():
            with open(os.path.join(d, name), 'w') as f:
                f.write(text)
        same('a host of 8 H100', d, 8, 'h100-8+8.yaml', *ends, 't0=h100.xml', 'i0=h100.xml')
        same('two racks of GB200', d, 64, 'gb200-nvl72-64+64.yaml', '--train', 'r0n[00-15]', '--infer', 'r1n[00-15]',
             'r[0-1]n[00-17]@r[0-1]=rack.xml')
        status, out, _ = run(TOOL, *ends, 't0=h100.xml', 'i0=half.xml', cwd=d)
        expect('4 NICs for 8 GPUs', status == 0 and 'names: "i0", gpus: 8, nics: 4' in out and 'nics: 8' in out, out)
        refused('NICs of two rates in one host', 'rates of NICs differ', d, *ends, 't0=mixed.xml', 'i0=h100.xml')
        refused('hosts of two rates', 'rates of NICs differ', d, *ends, 't0=slow.xml', 'i0=h100.xml')
        refused('no NVLink', 'no NVLink', d, *ends, 't0=pcie.xml', 'i0=h100.xml')
        refused('no CPU', 'not a topology', d, *ends, 't0=no.xml')
        refused('not XML', 'not XML', d, *ends, 't0=broken.xml')
        refused('a rack without its domain', 'name their domains', d, *ends, 't[0-17]=rack.xml')
        refused('a host with a domain', 'leave @ out', d, *ends, 't0@x=h100.xml')
        refused('no name', 'NAMES=DUMP', d, *ends, 'h100.xml')
        status, _, err = run(TOOL, *ends, 't0=absent.xml', cwd=d)
        expect('no file', status == 2 and 'absent.xml' in err, (status, err))
    sys.exit(1 if failed else 0)


main()
