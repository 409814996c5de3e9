"""Every producer of the dataflow as a function of its listed inputs alone.

A proof replays an accused kernel from a record; a test replays all of them, so that no edge of the table is missing.
"""

from foxflow.train.kernels.places import Place as Place
from foxflow.train.kernels.places import inputs_of as inputs_of
from foxflow.train.kernels.replaying import replay as replay
from foxflow.train.kernels.setting import Setting as Setting
from foxflow.train.kernels.setting import setting_of as setting_of
