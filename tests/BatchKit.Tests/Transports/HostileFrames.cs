namespace BatchKit.Tests.Transports;

/// <summary>Frames that every reader refuses, in every language: one for each rule of docs/wire-format.md that a reader might forget.</summary>
internal static class HostileFrames
{
    public static byte[][] All { get; } =
    [
        Frame("00"),
        Frame("01 00 01 05 01 01 01 41 00"),
        Frame("01 00 01 05 02 03 01 01 41 41 41"),
        .. Numbers(),
        .. Flags(),
        .. References(),
        .. Counts(),
    ];

    // Too many bytes, too high, or not above the batch before.
    private static byte[][] Numbers() =>
    [
        Frame("01 00 81 80 80 80 80 80 80 80 80 80 00 05 01 01 01 41"),
        Frame("01 00 80 80 80 80 80 80 80 80 80 01 05 01 01 01 41"),
        [.. Frame("01 00"), .. Enumerable.Repeat((byte)0x80, 2000), 0],
        Frame("02 00 02 05 01 01 01 41 08 02 01 01 01 01 41"),
        Frame("02 00 FF FF FF FF FF FF FF FF 7F 05 01 01 01 41 81 01 41"),
    ];

    private static byte[][] Flags() =>
    [
        Frame("01 20 01 05 01 01 01 41"),
        Frame("01 40 01 05 01 01 01 41"),
        Frame("01 02 01 05 01 01 01 01 00 03 00 00 41"),
        Frame("01 02 01 05 01 01 01 01 00 03 08 00 41"),
        Frame("01 02 01 05 01 01 01 01 00 03 04 03 41"),
    ];

    // Numbers of handles, texts and headers that the frame does not have.
    private static byte[][] References() =>
    [
        Frame("02 00 01 05 01 01 01 41 08 02 00 01 01 01 41"),
        Frame("02 00 01 05 01 01 01 41 08 02 02 01 01 01 41"),
        Frame("02 00 01 05 01 01 01 41 80 01 41"),
        Frame("02 00 01 05 01 01 01 41 82 01 41"),
        Frame("01 02 01 05 01 01 01 01 00 10 01 41"),
        Frame("01 02 01 05 01 01 01 01 00 07 41"),
    ];

    private static byte[][] Counts() =>
    [
        Frame("01 02 01 05 02 02 01 01 02 00 81 0A 41 41"),
        Frame("01 02 01 05 02 02 01 01 02 00 81 00 41 41"),
        Frame("01 02 01 05 02 02 01 01 01 02 01 41 41"),
        Frame("01 10 01 05 01 01 01 02 00 01 00 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 41"),
        Frame("01 10 01 05 01 01 01 00 41"),
    ];

    private static byte[] Frame(string rest) => [.. "BKF"u8, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, .. Convert.FromHexString(rest.Replace(" ", "", StringComparison.Ordinal))];
}
