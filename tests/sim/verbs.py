#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `reshard sim` and `reshard explain` say of a small plan: JSON keys, the picture, what is slow, refusals, exit statuses."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import xml.dom.minidom

TRAIN = '''tensor "w" bf16 [4096, 2048]; tensor "b" f32 [64];
for l in 0..3 { tensor "layers.{l}.up" bf16 [8192, 4096]; }
mesh m [dp: 2, tp: 4];
on m { buffer "w" = "w"[_ @tp, _]; buffer "b"; for l in 0..3 { buffer "layers.{l}.up" = "layers.{l}.up"[_ @tp, _]; } }
'''
INFER = '''tensor "w" bf16 [4096, 2048]; tensor "b" f32 [64];
for l in 0..3 { tensor "layers.{l}.up" bf16 [8192, 4096]; }
mesh m [dp: 2, tp: 8];
on m { buffer "w" = "w"[_, _ @tp]; buffer "b"; for l in 0..3 { buffer "layers.{l}.up" = "layers.{l}.up"[_ @tp, _]; } }
'''
CLUSTER = '''reshard-cluster: 1
links:
  nvlink:  {{bandwidth: 450e9, latency: 2e-6}}
  network: {{bandwidth: 50e9,  latency: 5e-6}}
  memory:  {{bandwidth: 3.3e12}}
hosts:
  - {{names: "t0", gpus: 8, nics: {nics}}}
  - {{names: "i[0-1]", gpus: 8, nics: {nics}}}
train: "t0"
infer: "i[0-1]"
'''
BYTES = 2 * 4096 * 2048  # of w
failures = 0


def check(good, what, *more):
    global failures
    if not good:
        failures += 1
        print(f'fails: {what}', *[str(m)[:600] for m in more])


class Tools:
    def __init__(self, bindir, d):
        self.bindir, self.d = bindir, d

    def __call__(self, name, *args):
        p = subprocess.run([os.path.join(self.bindir, name), *args], cwd=self.d, capture_output=True, text=True, timeout=60)
        return p.returncode, p.stdout, p.stderr

    def json(self, *args):
        status, out, err = self('reshard', *args, '--json')
        check(status == 0, f'{args} answers', err)
        return json.loads(out)


def test_compile(tool):
    status, out, err = tool('reshardc', 'train', 'infer', '-o', 'plan', '--cluster', 'cluster', '--json')
    check(status == 0, 'compiles', err)
    made = json.loads(out)
    check('simulated' in err and 'bound' in err and 'ratio' in err, 'the compile says bound and simulated time', err)
    check(made['bound']['term'] in err and made['bound']['words'] in err, 'and what binds', err)
    sim = tool.json('sim', 'plan', '--cluster', 'cluster')
    check(sim['simulated_seconds'] == made['seconds']['makespan'], 'one simulated time', sim['simulated_seconds'], made['seconds'])
    check(sim['bound']['seconds'] == made['seconds']['bound'], 'one bound')
    check(sim['bound']['network_minimum'] == made['bytes']['network_minimum'], 'one minimum')
    check(sim['plan_id'] == made['plan_id'], 'one plan')
    check(tool('reshard', 'verify', 'plan')[0] == 0, 'the plan is right after its figures were put in')


def test_sim(tool):
    sim = tool.json('sim', 'plan')
    keys = ['schema', 'plan_id', 'world', 'rounds', 'simulated_seconds', 'bound', 'ratio', 'phases', 'phases_computed', 'slowed',
            'links', 'busiest', 'ranks', 'left_out']
    check(list(sim) == keys, 'keys of sim', list(sim))
    check(sim['ratio'] == sim['simulated_seconds'] / sim['bound']['seconds'] >= 1, 'ratio', sim['ratio'])
    links = ['nic_out', 'nic_in', 'nvlink_out', 'nvlink_in', 'memory', 'issue']
    check([x['link'] for x in sim['links']] == links, 'links', sim['links'])
    check(len(sim['busiest']) == 10 and sim['busiest'] == sorted(sim['busiest'], key=lambda x: -x['busy']), 'the busiest come first')
    check([r['rank'] for r in sim['ranks']] == list(range(24)) and all(k in sim['ranks'][0] for k in links), 'ranks')
    show = tool.json('show', 'plan')
    for r, s in zip(sim['ranks'], show['ranks']):
        for link, key in (('nic_out', 'network_out'), ('nic_in', 'network_in'), ('nvlink_out', 'nvlink_out')):
            check(r[link]['bytes'] == s[key], f'{link} of rank {r["rank"]} is what show says', r[link], s[key])
        check(all(0 <= r[k]['busy'] <= 1 for k in links), 'busy is a share', r)
    check(all(x['uneven'] >= 1 - 1e-9 for x in sim['links'] if x['bytes']), 'no round is better than even', sim['links'])
    for x in sim['links'][:4]:
        check(abs(x['bytes'] - sum(r[x['link']]['bytes'] for r in sim['ranks'])) < 1, 'sums', x)
    status, out, _ = tool('reshard', 'sim', 'plan')
    check(status == 0 and 'simulated' in out and 'left out' in out and sim['bound']['words'] in out, 'the page', out)


def test_slow(tool):
    plain, slow = tool.json('sim', 'plan'), tool.json('sim', 'plan', '--slow', 'i1=0.25')
    one = tool.json('sim', 'plan', '--slow', 'i1:3=0.5', '--slow', 't0=0.5')
    check(slow['simulated_seconds'] > plain['simulated_seconds'], 'a slow host takes longer')
    check(slow['bound']['seconds'] >= plain['bound']['seconds'], 'and its bound too')
    check(slow['slowed'] == [{'where': 'i1=0.25', 'factor': 0.25, 'ranks': 8}], 'slowed', slow['slowed'])
    check([s['ranks'] for s in one['slowed']] == [1, 8], 'one GPU, one host', one['slowed'])
    rates = {r['rank']: r['nic_in']['rate'] for r in one['ranks']}
    check(rates[0] == 25e9 and rates[19] == 25e9 and rates[18] == 50e9, 'rates', rates)
    half = tool.json('sim', 'plan', '--cluster', 'half')
    check(half['ranks'][0]['nic_out']['rate'] == 25e9, 'four NICs for eight GPUs')
    for bad in ('i1', 'i1=', 'i1=2', 'i1=0', 'i1=-1', 'nowhere=0.5', 'i1:9=0.5', 'i1:x=0.5', '=0.5', 'i1=nan'):
        check(tool('reshard', 'sim', 'plan', '--slow', bad)[0] == 2, f'--slow {bad} is refused')
    check(tool('reshard', 'sim', 'plan', '--cluster', 'other')[0] == 2, 'a cluster with other hosts is refused')
    check(tool('reshard', 'sim', 'plan', '--cluster', 'none')[0] == 2, 'a missing cluster is trouble')
    check(tool('reshard', 'sim', 'none')[0] == 2 and tool('reshard', 'sim', 'train')[0] == 1, 'no plan')
    check(tool('reshard', 'sim')[0] == 2 and tool('reshard', 'sim', '--help')[0] == 0, 'usage')


def test_picture(tool):
    status, out, err = tool('reshard', 'sim', 'plan', '--svg', 'out.svg')
    check(status == 0 and 'simulated' in out, 'picture and page', err)
    with open(os.path.join(tool.d, 'out.svg')) as f:
        text = f.read()
    doc = xml.dom.minidom.parseString(text)
    words = ' '.join(t.firstChild.data for t in doc.getElementsByTagName('text') if t.firstChild)
    for word in ('simulated', 'network out', 'network in', 'bound', 'busy'):
        check(word in words, f'the picture says {word}', words)
    shown = [r for r in doc.getElementsByTagName('rect') if r.getAttribute('fill') not in ('#fff', '#fafafa')]
    check(len(shown) > 20, 'it shows something', len(shown))
    check(all('nan' not in r.getAttribute(a) and float(r.getAttribute('x')) < 900 for r in shown for a in ('x', 'y', 'width')),
          'numbers')
    status, out, _ = tool('reshard', 'sim', 'plan', '--svg', '-')
    check(status == 0 and out == text, 'the picture alone on standard output')
    check(tool('reshard', 'sim', 'plan', '--svg', 'no/such/dir.svg')[0] == 2, 'a picture that cannot be written')


def test_tensor(tool):
    said = tool.json('explain', 'plan', 'w')
    t = said['tensors'][0]
    check(list(t) == ['name', 'dtype', 'shape', 'bytes', 'held', 'wanted', 'ways'], 'keys of a tensor', list(t))
    check(said['matched'] == 1 and t['shape'] == [4096, 2048] and t['bytes'] == BYTES, 'the tensor', t)
    check(t['held'][0]['ranks'] == list(range(8)) and t['held'][0]['elements'] == BYTES // 2 // 4, 'who holds it', t['held'])
    first = sum(w['bytes'] for w in t['ways'])
    # two domains take it in once each, from outside
    network = sum(w['bytes'] * sum(h['link'] == 'network' for h in w['hops']) for w in t['ways'])
    check(network == 2 * BYTES and first <= network, 'bytes over the network', network, first)
    for w in t['ways']:
        check(w['sender'] == w['hops'][0]['from'] and w['sender'] in [c['rank'] for c in w['candidates']], 'sender', w)
        check(len(w['candidates']) == 2 and w['why'], 'the data-parallel copy could have sent it too', w)
    many = tool.json('explain', 'plan', 'layers.*')
    check(many['matched'] == 3, 'a glob', many['matched'])
    status, out, _ = tool('reshard', 'explain', 'plan', 'w')
    check(status == 0 and 'why' in out and 'held' in out and 'wanted' in out, 'the page', out)
    check('who could, and sends over the network in all:' in out, 'what of a sender', out)
    status, _, err = tool('reshard', 'explain', 'plan', 'layers.2.upp')
    check(status == 1 and "did you mean 'layers.2.up'?" in err and err.count('\n') == 1, 'a near name', err)
    for words in ('nope', '3->99', 'nic:t9:0', 'nvlink:t0:8'):
        check(tool('reshard', 'explain', 'plan', words)[0] == 1, f'{words}: no')
    check(tool('reshard', 'explain', 'plan')[0] == 2 and tool('reshard', 'explain', '--help')[0] == 0, 'usage')


def test_colocated(tool):
    """A process with both roles is named by the one that it acts in."""
    status, _, err = tool('reshardc', 'train', 'infer', '-o', 'both.plan', '--cluster', 'both')
    check(status == 0, 'compiles', err)
    _, out, _ = tool('reshard', 'explain', 'both.plan', 'w')
    ways = [line.split(',')[0].split(' -> ') for line in out.splitlines() if ' -> ' in line]
    check(ways and all(' train ' in a and b.startswith('infer ') for a, b in ways), 'ends of a way', out)
    _, out, _ = tool('reshard', 'explain', 'both.plan', '0->1')
    check(out.startswith('train 0 -> infer 1 ('), 'ends of a link', out)


def test_link(tool):
    sim, show = tool.json('sim', 'plan'), tool.json('show', 'plan')
    for r in show['ranks']:
        place = f'{r["host"]}:{r["gpu"]}'
        for link, out, into in (('nic', 'network_out', 'network_in'), ('nvlink', 'nvlink_out', 'nvlink_in')):
            ways = tool.json('explain', 'plan', f'{link}:{place}')['ways']
            check([w['direction'] for w in ways] == ['out', 'in'], 'both directions')
            for w, key in zip(ways, (out, into)):
                check(w['bytes'] == r[key], f'{link} of {place}', w['bytes'], r[key])
                check(sum(p['bytes'] for p in w['patterns']) == w['bytes'] == sum(p['bytes'] for p in w['peers']),
                      'patterns and peers make up all', w)
                check(w['bytes'] == 0 or abs(sum(p['share'] for p in w['patterns']) - 1) < 1e-9, 'shares', w)
    busy = sim['busiest'][0]
    pairs = [tool.json('explain', 'plan', f'{busy["rank"]}->{r}')['ways'][0]['bytes'] for r in range(24)]
    want = show['ranks'][busy['rank']]
    check(sum(pairs) == want['network_out'] + want['nvlink_out'] + want['local'], 'pairs make up all that a rank sends', pairs)


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--bin', required=True)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as d:
        files = {'train': TRAIN, 'infer': INFER, 'cluster': CLUSTER.format(nics=8), 'half': CLUSTER.format(nics=4),
                 'both': CLUSTER.format(nics=8).replace('train: "t0"', 'train: "i0"').replace('  - {names: "t0", gpus: 8, nics: 8}\n', ''),
                 'other': CLUSTER.format(nics=8).replace('t0', 'x0')}
        for name, text in files.items():
            with open(os.path.join(d, name), 'w') as f:
                f.write(text)
        tool = Tools(os.path.abspath(a.bin), d)
        for test in (test_compile, test_sim, test_slow, test_picture, test_tensor, test_colocated, test_link):
            test(tool)
    print('failed' if failures else 'sim and explain say what they should')
    return failures != 0


if __name__ == '__main__':
    sys.exit(main())
