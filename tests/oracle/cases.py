# SPDX-License-Identifier: Apache-2.0
"""A case: the files of a pair and the arguments of its compile; written to and read from a directory."""
import json
import os
import re
import tempfile
import yaml
from pair import load_pair
from syntax import Refuse


class Case:
    def __init__(self, seed):
        self.seed, self.files, self.note = seed, {}, ''
        self.train, self.infer = 'train.layout', 'infer.layout'
        self.defines, self.incdirs, self.models, self.cluster, self.args = [], [], [], None, []
        self.dir = None

    FIELDS = ('seed', 'note', 'train', 'infer', 'defines', 'incdirs', 'models', 'cluster', 'args')

    def copy(self):
        c = Case(self.seed)
        for f in self.FIELDS:
            v = getattr(self, f)
            setattr(c, f, list(v) if isinstance(v, list) else v)
        c.files, c.dir = dict(self.files), self.dir
        return c

    def write(self, d):
        if os.path.basename(d).startswith('oracle-'):
            clear(d)
        self.dir = d
        for name, text in self.files.items():
            p = os.path.join(d, name)
            os.makedirs(os.path.dirname(p), exist_ok=True)
            with open(p, 'wb') as f:
                f.write(text.encode('utf-8'))

    def save(self, d):
        self.write(d)
        with open(os.path.join(d, 'case.json'), 'w') as f:
            json.dump({k: getattr(self, k) for k in self.FIELDS} | {'files': sorted(self.files)}, f, indent=1)

    @staticmethod
    def read(d):
        with open(os.path.join(d, 'case.json')) as f:
            j = json.load(f)
        c = Case(j['seed'])
        for k in Case.FIELDS:
            setattr(c, k, j[k])
        c.defines = [tuple(x) for x in c.defines]
        for name in j['files']:
            with open(os.path.join(d, name), 'rb') as f:
                c.files[name] = f.read().decode('utf-8')
        c.dir = d
        return c

    def load(self, d=None):
        """The oracle's Pair; raises Refuse."""
        d = d or self.dir or scratch()
        self.write(d)
        pair = load_pair(os.path.join(d, self.train), os.path.join(d, self.infer), self.defines,
                         [os.path.join(d, x) for x in self.incdirs], [os.path.join(d, x) for x in self.models])
        if self.cluster:
            for side in (pair.train, pair.infer):
                if self.gpus(side.which) < side.world:
                    raise Refuse('cluster', f'{side.world} ranks')
        return pair

    def gpus(self, which):
        """How many GPUs the (generated) cluster gives a side."""
        doc = yaml.safe_load(self.files[self.cluster])
        if ':' in doc[which]:
            return len(doc[which].split(','))
        per = {h['names'][0]: h['gpus'] for h in doc['hosts']}
        n = per[doc[which][0]]
        for lo, hi in re.findall(r'\[(\d+)-(\d+)\]', doc[which]):
            n *= int(hi) - int(lo) + 1
        return n

    def arguments(self):
        """Of reshardc, to be run in the case's directory."""
        out = [self.train, self.infer, '-o', 'plan.bin']
        for k, v in self.defines:
            out += ['-D', f'{k}={v}']
        for x in self.incdirs:
            out += ['-I', x]
        for x in self.models:
            out += ['--model', x]
        if self.cluster:
            out += ['--cluster', self.cluster]
        return out + self.args


def clear(d):
    """A scratch directory must not show files of the case before."""
    for root, dirs, files in os.walk(d, topdown=False):
        for f in files:
            os.unlink(os.path.join(root, f))
        for f in dirs:
            os.rmdir(os.path.join(root, f))


def scratch():
    """A directory of this process, in memory where there is one."""
    base = os.environ.get('ORACLE_SCRATCH') or tempfile.gettempdir()
    d = os.path.join(base, f'oracle-{os.getpid()}')
    os.makedirs(d, exist_ok=True)
    return d
