using System.Buffers.Text;

namespace BatchKit.Sessions;

/// <summary>What a client's line was for the sessions.</summary>
public enum SessionLineKind
{
    /// <summary>Not a session's line: it is the application's.</summary>
    None = 0,

    /// <summary>The client opened a session.</summary>
    Opened = 1,

    /// <summary>The client took up its session.</summary>
    Resumed = 2,

    /// <summary>The client acknowledged.</summary>
    Acknowledged = 3,

    /// <summary>Refused: an unknown token, too many sessions, or a number that was never sent. Who opens or resumes is told.</summary>
    Refused = 4,
}

/// <summary>What became of a client's line.</summary>
/// <param name="Kind">What the line was.</param>
/// <param name="Session">The session that was opened, resumed or acknowledged; else null.</param>
public readonly record struct SessionInput(SessionLineKind Kind, Session? Session);

/// <summary>A line of a client: <c>session open</c>, <c>session resume TOKEN LAST</c> or <c>session ack NUMBER</c>.</summary>
internal readonly ref struct SessionLine
{
    public SessionLineKind Kind { get; private init; }

    public ReadOnlySpan<byte> Token { get; private init; }

    /// <summary>The last number that the client has received; -1 when it is not readable.</summary>
    public long Number { get; private init; }

    /// <summary>Reads a line. One that only resembles a session's is the application's.</summary>
    public static SessionLine Read(ReadOnlySpan<byte> line)
    {
        line = line.TrimEnd("\r\n "u8);
        if (!TryTake(ref line, "session "u8))
            return default;
        if (line.SequenceEqual("open"u8))
            return new SessionLine { Kind = SessionLineKind.Opened };
        if (TryTake(ref line, "ack "u8))
            return new SessionLine { Kind = SessionLineKind.Acknowledged, Number = NumberOf(line) };
        if (!TryTake(ref line, "resume "u8))
            return default;
        var end = line.IndexOf((byte)' ');
        return end < 0
            ? new SessionLine { Kind = SessionLineKind.Resumed, Token = line }
            : new SessionLine { Kind = SessionLineKind.Resumed, Token = line[..end], Number = NumberOf(line[(end + 1)..]) };
    }

    /// <summary>Reads digits alone.</summary>
    public static bool TryReadNumber(ReadOnlySpan<byte> text, out long number)
    {
        number = 0;
        return !text.IsEmpty && char.IsAsciiDigit((char)text[0]) && Utf8Parser.TryParse(text, out number, out var read) && read == text.Length;
    }

    private static long NumberOf(ReadOnlySpan<byte> text) => TryReadNumber(text, out var number) ? number : -1;

    private static bool TryTake(ref ReadOnlySpan<byte> line, ReadOnlySpan<byte> start)
    {
        if (!line.StartsWith(start))
            return false;
        line = line[start.Length..];
        return true;
    }
}
