"""The exports of eye trackers are understood; their headers are facts about public files, their rows made up."""

import gzip

import polars as pl
import pytest

from tests.refusals import refused
from tests.trainer.data.recordings.recorded import gaze_of, rows, write_images, write_table
from trainer.data.recordings.questions import AmbiguousReadingsError
from trainer.data.recordings.tables import BATCH_ROWS

TOBII = rows(
    "Recording timestamp\tSensor\tParticipant name\tRecording name\tEye movement type\tGaze event duration\t"
    "Eye movement type index\tFixation point X\tFixation point Y\tFixation point X (MCSnorm)\t"
    "Fixation point Y (MCSnorm)\tPresented Stimulus name",
    "10\tEye Tracker\tP2\tR1\tFixation\t30\t1\t500\t400\t0,5\t0,25\ta",
    "20\tEye Tracker\tP2\tR1\tFixation\t30\t1\t500\t400\t0,5\t0,25\ta",
    "20\tMouse\tP2\tR1\tFixation\t30\t1\t500\t400\t0,5\t0,25\ta",
    "30\tEye Tracker\tP2\tR1\tSaccade\t10\t1\t\t\t\t\ta",
    "40\tEye Tracker\tP2\tR1\tFixation\t30\t2\t500\t400\t0,75\t0,5\ta",
    "50\tEye Tracker\tP1\tR2\tFixation\t30\t1\t500\t400\t0,25\t0,5\tb",
    "60\tEye Tracker\tP1\tR2\tFixation\t30\t2\t500\t400\t0,25\t0,5\tEyetracker Calibration",
)
TOBII_STUDIO = rows(
    "ParticipantName,RecordingTimestamp,FixationIndex,SaccadeIndex,GazeEventType,GazeEventDuration,"
    "FixationPointX(MCSpx),FixationPointY(MCSpx),GazePointX(ADCSpx),GazePointY(ADCSpx)",
    "00,20010,,,Unclassified,173,,,900,400",
    "00,20013,1,,Fixation,173,16,12,900,400",
    "00,20017,1,,Fixation,173,16,12,900,400",
    "00,20020,,1,Saccade,30,,,900,400",
    "00,20023,2,,Fixation,173,32,24,900,400",
    "01,20010,1,,Fixation,173,16,12,900,400",
    "01,20013,2,,Fixation,173,,,900,400",
)
EYELINK = rows(
    "RECORDING_SESSION_LABEL\tTRIAL_INDEX\tCURRENT_FIX_START\tCURRENT_FIX_X\tCURRENT_FIX_Y\tCURRENT_FIX_DURATION\t"
    "imagetest\tsaliencytest",
    "s02\t1\t472\t132.5\t124.4\t356\ta.png\t20",
    "s02\t1\t868\t148\t112\t496\ta.png\t20",
    "s01\t1\t472\t116\t124\t356\tb.png\t20",
    "s01\t1\t868\t.\t.\t356\tb.png\t20",
)
GAZEPOINT = rows(
    "MEDIA_ID,MEDIA_NAME,CNT,TIME(2026/01/01 10:00:00.000),TIMETICK(f=10000000),FPOGX,FPOGY,FPOGS,FPOGD,FPOGID,"
    "FPOGV,BPOGX,BPOGY,BPOGV,USER,AOI,",
    "0,a,0,0.00,30000000000,0.20,0.25,0.00,0.00,1,1,0.2,0.2,1,0,,",
    "0,a,1,0.02,30000000166,0.25,0.25,0.00,0.02,1,1,0.2,0.2,1,0,,",
    "0,a,2,0.04,30000000333,0.50,0.50,0.04,0.02,2,1,0.2,0.2,1,0,,",
    "0,a,3,0.06,30000000500,0.90,0.90,0.06,0.02,3,0,0.2,0.2,1,0,,",
    "1,b,4,0.08,30000000666,0.75,0.50,0.02,0.02,1,1,0.2,0.2,1,0,,",
)
PUPIL_PLAYER = rows(
    "world_timestamp,world_index,fixation_id,start_timestamp,duration,dispersion,norm_pos_x,norm_pos_y,x_scaled,"
    "y_scaled,on_surf",
    "1.00,3,7,0.90,200,0.5,0.25,0.75,16,36,True",
    "1.03,4,7,0.90,200,0.5,0.25,0.75,16,36,True",
    "1.20,5,8,1.15,200,0.5,0.50,0.50,32,24,True",
    "1.40,6,9,1.35,200,0.5,1.50,0.50,96,24,False",
)
PUPIL_CLOUD = rows(
    "section id,recording id,fixation id,start timestamp [ns],end timestamp [ns],duration [ms],"
    "fixation detected in reference image,fixation x [px],fixation y [px]",
    "s1,r2,1,1700000000000000000,1700000000200000000,200,True,16.0,12.0",
    "s1,r1,1,1700000001000000000,1700000001200000000,200,True,32.0,24.0",
    "s1,r1,2,1700000002000000000,1700000002200000000,200,False,,",
)
SMI = rows(
    "## [BeGaze]",
    "## Subject:\tall",
    "Trial\tTrial Start Raw Time [ms]\tStimulus\tExport Start Trial Time [ms]\tExport End Trial Time [ms]\t"
    "Participant\tColor\tTracking Ratio [%]\tCategory Group\tCategory\tEvent Start Trial Time [ms]\t"
    "Event Duration [ms]\tFixation Position X [px]\tFixation Position Y [px]\t"
    "Fixation Average Pupil Size X [px]\tFixation Average Pupil Diameter [mm]\tFixation Dispersion X [px]\t"
    "AOI Name",
    "T1\t5,5\ta.png\t0,0\t900,0\tP2\tRed\t98,7\tEye\tFixation\t0,0\t200,1\t16,5\t12,5\t3,3\t3,4\t9,1\tText",
    "T1\t5,5\ta.png\t0,0\t900,0\tP2\tRed\t98,7\tEye\tSaccade\t200,1\t20,2\t-\t-\t-\t-\t-\t-",
    "T1\t5,5\ta.png\t0,0\t900,0\tP2\tRed\t98,7\tEye\tFixation\t220,3\t200,1\t24,5\t36,5\t3,3\t3,6\t9,1\tText",
    "T1\t7,5\ta.png\t1,0\t800,0\tP1\tBlue\t95,1\tEye\tFixation\t230,0\t200,1\t32,5\t24,5\t3,5\t3,6\t8,1\tText",
    "T1\t7,5\ta.png\t1,0\t800,0\tP1\tBlue\t95,1\tInformation\tSeparator\t230,0\t200,1\t-\t-\t-\t-\t-\t-",
)
TOBII_STUDIO_2 = rows(
    "Data properties:",
    "Study: all",
    "Screen resolution: 1280 x 1024",
    "Coordinate unit: Pixels",
    "Timestamp\tStimuliName\tFixationIndex\tFixationDuration\tMappedFixationPointX\tMappedFixationPointY\tuser",
    "26\ta.png\t12\t633\t16\t12\tp2",
    "700\ta.png\t13\t849\t32\t24\tp1",
)
OWN_CSV = rows(
    "ParticipantID,Stimulus,FixationNo,StartTime,EndTime,Duration,PositionX,PositionY,PupilSize,EyeUsed",
    "p2,a.png,1,4,400,396,16,12,4197,RIGHT",
    "p1,a.png,1,6,300,294,32,24,4041,LEFT",
)
FEW_VALUES = rows(
    "Index\tTime\tDur\tXPoint\tYPoint\tPageName\tUserID\ttask_id\tPupil_Size",
    "1\t0\t150\t16\t12\ta.png\tp2\t7\t3.5",
    "2\t900\t250\t24\t36\ta.png\tp2\t7\t3.5",
    "1\t0\t180\t32\t24\ta.png\tp1\t8\t3.6",
)
NUMPY = rows("# user, image, index, x, y", "p2,a.png,1,16,12", "p1,a.png,1,32,24")
BIDS = rows(
    "onset\tduration\ttrial_type\tparticipant_id\tstim_file\tx_coordinate\ty_coordinate",
    "0.5\t0.2\tfixation\tsub-02\timages/a.png\t16\t12",
    "0.7\t0.1\tsaccade\tsub-02\timages/a.png\t20\t12",
    "0.8\t0.2\tfixation\tsub-02\timages/a.png\t32\t24",
    "0.5\t0.2\tfixation\tsub-01\timages/b.png\tn/a\tn/a",
    "0.7\t0.1\tsaccade\tsub-01\timages/b.png\t30\t12",
    "0.9\t0.2\tfixation\tsub-01\timages/b.png\t32\t24",
)
TWO = {"a.png": ([[12, 16], [24, 32]], [1, 0])}


@pytest.mark.parametrize(
    ("table", "name", "encoding", "expected"),
    [
        (TOBII, "export.tsv", "utf-16", {"a.png": ([[12, 32], [24, 48]], [1, 1]), "b.png": ([[24, 16]], [0])}),
        (TOBII_STUDIO, "a.csv", "utf-8", {"a.png": ([[12, 16], [24, 32], [12, 16]], [0, 0, 1])}),
        (PUPIL_PLAYER, "fixations_on_surface_a.csv", "utf-8", {"a.png": ([[12, 16], [24, 32]], None)}),
    ],
)
def test_positions_whose_names_tell_the_unit_and_the_image_are_read(table, name, encoding, expected, tmp_path):
    write_images(tmp_path / "set" / "images", ("a.png", "b.png"))
    write_table(tmp_path / "set" / name, table, encoding)
    found = gaze_of(tmp_path / "set", max_lost_share=0.5)  # of one image, and of a calibration
    assert {path.rpartition("/")[2]: gaze for path, gaze in found.items()} == expected


@pytest.mark.parametrize(
    ("table", "name", "encoding", "expected"),
    [
        (SMI, "Event Statistics - Single.txt", "latin-1", {"a.png": ([[12, 16], [36, 24], [24, 32]], [1, 1, 0])}),
        (TOBII_STUDIO_2, "P61-Fixation-Data.tsv", "utf-8", TWO),
        (OWN_CSV, "Fixations.csv", "utf-8", TWO),
        (FEW_VALUES, "01.txt", "utf-8", {"a.png": ([[12, 16], [36, 24], [24, 32]], [1, 1, 0])}),
        (NUMPY, "scanpaths.csv", "utf-8", TWO),
        (
            BIDS,
            "sub_events.tsv",
            "utf-8-sig",
            {"a.png": ([[12, 16], [24, 32]], [1, 1]), "b.png": ([[24, 32]], [0])},
        ),
    ],
)
def test_positions_whose_names_do_not_tell_the_image_are_asked_about(table, name, encoding, expected, tmp_path):
    write_images(tmp_path / "set" / "images", ("a.png", "b.png"))
    write_table(tmp_path / "set" / name, table, encoding)
    with refused(AmbiguousReadingsError, "coordinates=pixels"):
        gaze_of(tmp_path / "set", max_lost_share=0.5)
    found = gaze_of(tmp_path / "set", max_lost_share=0.5, coordinates="pixels")
    assert {path.rpartition("/")[2]: gaze for path, gaze in found.items()} == expected


def test_eyelink_is_measured_on_the_screen_and_names_images_in_a_column_of_any_name(tmp_path):
    """Lines of Data Viewer may end with a carriage return alone."""
    write_images(tmp_path / "set", ("a.png", "b.png"))
    write_table(tmp_path / "set" / "fix_report.xls", EYELINK.replace("\n", "\r"))
    gaze = {"a.png": ([[24, 32], [12, 48]], [1, 1]), "b.png": ([[24, 16]], [0])}
    assert gaze_of(tmp_path / "set", screen_size="248x264") == gaze
    assert gaze_of(tmp_path / "set", image_on_screen="100,100") == gaze
    write_images(tmp_path / "set", ("a.png", "b.png"), (248, 264))  # they may fill the screen
    with refused(AmbiguousReadingsError, "screen_size=248x264 image_on_screen=fit"):
        gaze_of(tmp_path / "set")
    filled = gaze_of(tmp_path / "set", (248, 264), screen_size="248x264", image_on_screen="fit")
    assert filled["b.png"] == ([[124, 116]], [0])


def test_gazepoint_has_an_observer_for_each_table_and_a_row_for_each_sample(tmp_path):
    """The last sample of a fixation has its final position, and numbers begin again with each image."""
    write_images(tmp_path / "set", ("a.png", "b.png"))
    for user, y in ((0, "0.50,0.04"), (1, "0.75,0.04")):
        table = GAZEPOINT.replace("0.50,0.04", y)
        write_table(tmp_path / "set" / "result" / f"User {user}_all_gaze.csv", table)
        write_table(tmp_path / "set" / "result" / f"User {user}_fixations.csv", table)
    assert gaze_of(tmp_path / "set", screen_size="48x64") == {
        "a.png": ([[12, 16], [24, 32], [12, 16], [36, 32]], [0, 0, 1, 1]),
        "b.png": ([[24, 48]] * 2, [0, 1]),
    }


def test_pupil_cloud_means_the_only_image_in_the_folder_of_its_table(tmp_path):
    for index, name in enumerate(("first", "second")):
        write_images(tmp_path / "set" / name, ("reference_image.jpeg",), first=index)
        write_table(tmp_path / "set" / name / "fixations.csv", PUPIL_CLOUD)
        write_table(tmp_path / "set" / name / "sections.csv", rows("section id,recording id", "s1,r1"))
    assert gaze_of(tmp_path / "set") == {
        f"{name}/reference_image.jpeg": ([[12, 16], [24, 32]], [1, 0]) for name in ("first", "second")
    }


@pytest.mark.parametrize(
    "content",
    [
        "image,x,y\nä,1,2\nb,3,4\n".encode("latin-1"),
        "image,x,y\nä,1,2\nb,3,4\n".encode("utf-16-le"),
        "\ufeffimage,x,y\nä,1,2\nb,3,4\n".encode(),
        "image,x,y\rä,1,2\rb,3,4".encode(),
        "# made by us, in 2026\n\nimage\tx\ty\t\n\u00e4\t1\t2\t\nb\t3\t4\t".encode(),
        "image,x,y\nä,1,2,\nb,3,4,\n".encode(),  # rows end with a delimiter, the header does not
    ],
)
def test_text_of_every_encoding_and_form(content, tmp_path):
    write_images(tmp_path / "set", ("ä.png", "b.png"))
    (tmp_path / "set" / "t.csv").write_bytes(content)
    assert gaze_of(tmp_path / "set", coordinates="pixels") == {
        "ä.png": ([[2, 1]], None),
        "b.png": ([[4, 3]], None),
    }


def test_a_table_of_more_than_one_batch_is_read_whole(tmp_path):
    """Equal rows are fixations of their own where no column tells one from the next."""
    write_images(tmp_path / "set", ("a.png", "b.png"))
    write_table(tmp_path / "set" / "t.csv", "image,x,y\n" + "a,1,2\na,40,30\n" * 2 * BATCH_ROWS + "b,3,4\n")
    gaze = gaze_of(tmp_path / "set", coordinates="pixels")
    assert gaze == {"a.png": ([[2, 1], [30, 40]] * 2 * BATCH_ROWS, None), "b.png": ([[4, 3]], None)}


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical])
def test_parquet(kind, tmp_path):
    write_images(tmp_path / "set", ("a.png", "b.png"))
    columns = {
        "image": pl.Series(["a", "b", "b"], dtype=kind),
        "x": pl.Series([1, 2, 3], dtype=pl.Int16),
        "y": pl.Series([5.5, None, 7.5], dtype=pl.Float32),
        "subject": [3, 4, 4],
    }
    pl.DataFrame(columns).write_parquet(tmp_path / "set" / "fixations.parquet")
    assert gaze_of(tmp_path / "set", coordinates="pixels") == {"a.png": ([[5, 1]], [0]), "b.png": ([[7, 3]], [1])}


def test_a_compressed_table_with_another_delimiter(tmp_path):
    write_images(tmp_path / "set", ("a.png", "b.png"))
    text = rows('"image";"x";"y"', '"a.png";"1,5";"2,5"', '"b.png";3;4').encode()
    (tmp_path / "set" / "fixations.csv.gz").write_bytes(gzip.compress(text))
    assert gaze_of(tmp_path / "set", coordinates="pixels") == {
        "a.png": ([[2, 1]], None),
        "b.png": ([[4, 3]], None),
    }


def test_samples_that_have_the_point_of_their_fixation_alone_are_one_fixation(tmp_path):
    """Tobii Studio can leave the number of fixations out of an export, but not their points."""
    points = [("10", "20"), ("10", "20"), ("10", "20"), ("", ""), ("30", "22"), ("30", "22"), ("10", "20")]
    header = "ParticipantName\tMediaName\tRecordingTimestamp\tFixationPointX (MCSpx)\tFixationPointY (MCSpx)"
    lines = [
        f"P1\t{name}.png\t{time}\t{x}\t{y}" for name in "ab" for time, (x, y) in enumerate(points, ord(name) * 100)
    ]
    write_images(tmp_path / "set", ("a.png", "b.png"))
    write_table(tmp_path / "set" / "export.tsv", rows(header, *lines))
    expected = [[20, 10], [22, 30], [20, 10]], [0, 0, 0]
    assert gaze_of(tmp_path / "set") == {"a.png": expected, "b.png": expected}


@pytest.mark.parametrize(("width", "height", "is_asked"), [(64, 90, False), (64, 48, False), (128, 96, True)])
def test_a_page_may_be_longer_in_a_recording_but_not_wider(width, height, is_asked, tmp_path):
    header = "ParticipantName\tMediaName\tMediaPosX\tMediaPosY\tMediaWidth\tMediaHeight\tFixationIndex\t"
    header += "FixationPointX (MCSpx)\t"
    lines = [
        f"P1\t{name}.png\t0\t0\t{width}\t{height}\t{n}\t{10 * n}\t{20 + n}" for name in "ab" for n in (1, 2, 3)
    ]
    write_images(tmp_path / "set", ("a.png", "b.png"))
    write_table(tmp_path / "set" / "export.tsv", rows(f"{header}FixationPointY (MCSpx)", *lines))
    if is_asked:
        with refused(AmbiguousReadingsError, "96 x 128", "48 x 64", "coordinates=pixels"):
            gaze_of(tmp_path / "set")
    else:
        assert gaze_of(tmp_path / "set")["a.png"] == ([[21, 10], [22, 20], [23, 30]], [0, 0, 0])
