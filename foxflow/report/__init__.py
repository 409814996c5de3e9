"""A comparison for people: one self-contained HTML page, and a picture of where two runs part."""

from foxflow.report.kept import read_proof as read_proof
from foxflow.report.page import Findings as Findings
from foxflow.report.page import page as page
from foxflow.report.picture import picture as picture
from foxflow.report.text import place as place
