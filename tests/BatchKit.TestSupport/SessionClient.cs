using System.Globalization;

namespace BatchKit.TestSupport;

/// <summary>A client that follows the protocol, as the script for browsers does.</summary>
public sealed class SessionClient
{
    private bool _isBehind;
    private int _arrivals;

    public string? Token { get; private set; }

    /// <summary>The last number that it has received, or was told that it will not get.</summary>
    public long Last { get; private set; }

    /// <summary>By number, what it has received.</summary>
    public SortedDictionary<long, string> Received { get; } = [];

    /// <summary>The numbers that it was told are lost.</summary>
    public HashSet<long> Lost { get; } = [];

    /// <summary>The numbers of values that newer ones have replaced.</summary>
    public HashSet<long> Skipped { get; } = [];

    /// <summary>How often its session was opened or taken up. Any thread may read it.</summary>
    public int Arrivals => Volatile.Read(ref _arrivals);

    /// <summary>How often its session was gone.</summary>
    public int Expired { get; private set; }

    /// <summary>Begins on a new connection.</summary>
    /// <returns>Its first line.</returns>
    public string Greet()
    {
        _isBehind = true;
        return Token is null ? "session open" : $"session resume {Token} {Last}";
    }

    /// <summary>Takes a line of the server.</summary>
    /// <returns>What it answers; null for nothing.</returns>
    public string? Take(string line)
    {
        var words = line.Split(' ', 2);
        if (long.TryParse(words[0], NumberStyles.None, CultureInfo.InvariantCulture, out var number))
            return Receive(number, words[1]);
        switch (words[0])
        {
            case "session":
                Token = words[1];
                Arrive();
                break;
            case "resumed":
                Last = long.Parse(words[1], CultureInfo.InvariantCulture) - 1;
                Arrive();
                break;
            case "expired":
                (Token, Expired) = (null, Expired + 1);
                return Greet();
            case "gap":
                Leave(words[1], Lost);
                break;
            case "skip":
                Leave(words[1], Skipped);
                break;
            default:
                throw new InvalidOperationException($"'{line}' is not in the protocol.");
        }

        return null;
    }

    private void Arrive()
    {
        _isBehind = false;
        Interlocked.Increment(ref _arrivals);
    }

    private string? Receive(long number, string payload)
    {
        if (_isBehind || number <= Last)
            return null;
        if (number != Last + 1)
            return Greet();
        Received.Add(number, payload);
        Last = number;
        return null;
    }

    private void Leave(string range, HashSet<long> to)
    {
        // It may have received them meanwhile.
        var end = long.Parse(range.Split(' ')[1], CultureInfo.InvariantCulture);
        while (!_isBehind && Last < end)
            to.Add(++Last);
    }
}
