using System.Diagnostics.CodeAnalysis;
using System.Globalization;
using System.Security.Cryptography;

namespace MudServer.Game;

/// <summary>Counts the players between two connections, and what waits for them.</summary>
/// <param name="Players">The players that are away now.</param>
/// <param name="WaitingBytes">What waits for them.</param>
/// <param name="ReturnedPlayers">Players that came back.</param>
/// <param name="LostPlayers">Players that did not come back in time.</param>
/// <param name="LostLines">Lines that were dropped: above a limit, or with a player that did not come back.</param>
internal sealed record AwayStatistics(int Players, long WaitingBytes, long ReturnedPlayers, long LostPlayers, long LostLines);

/// <summary>
/// The players between two connections: a gateway that ends has sent them away, and another one brings them back. Their output waits here, bounded in bytes and in time. Only the game loop uses it,
/// but for the statistics.
/// </summary>
internal sealed class AwayPlayers(GameInput input, GameSettings settings, TimeProvider timeProvider)
{
    private const int MaxBytesPerPlayer = 256 * 1024;
    private const long MaxBytes = 64 * 1024 * 1024;

    // Without letters and digits that look alike.
    private const string TokenLetters = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
    private const int TokenLength = 12;

    private static readonly TimeSpan CheckInterval = TimeSpan.FromSeconds(1);

    private readonly Dictionary<string, Player> _byToken = new(StringComparer.OrdinalIgnoreCase);
    private ITimer? _timer;
    private volatile AwayStatistics _statistics = new(0, 0, 0, 0, 0);

    /// <summary>Any thread may read it.</summary>
    public AwayStatistics Statistics => _statistics;

    /// <summary>Reads the shard from a line that asks to resume; zero when it does not.</summary>
    public static int ReadShard(string line)
    {
        var words = line.Split(' ', StringSplitOptions.RemoveEmptyEntries);
        var isResume = words.Length == 2 && words[0].Equals("resume", StringComparison.OrdinalIgnoreCase);
        return isResume && int.TryParse(words[1].Split('-')[0], NumberStyles.None, CultureInfo.InvariantCulture, out var shard) ? shard : 0;
    }

    /// <summary>Draws a token by which a player of a shard comes back.</summary>
    public static string DrawToken(int shard) => string.Create(CultureInfo.InvariantCulture, $"{shard}-{RandomNumberGenerator.GetString(TokenLetters, TokenLength)}");

    /// <summary>Begins to keep a player's output.</summary>
    public void Add(Player player, string token)
    {
        player.Session.Away = new AwayOutput(token, timeProvider.GetTimestamp());
        player.HasChanged = true;
        _byToken.Add(token, player);
        _statistics = _statistics with { Players = _byToken.Count };
        _timer ??= timeProvider.CreateTimer(_ => input.Check(), state: null, CheckInterval, CheckInterval);
    }

    public bool TryGet(string token, [NotNullWhen(true)] out Player? player) => _byToken.TryGetValue(token, out player);

    /// <summary>Keeps a line. The last prompt comes after the player's return, so others are not kept.</summary>
    public void Keep(AwayOutput away, ReadOnlySpan<byte> payload, MessageHeader? header)
    {
        if (header == MessageHeader.Prompt)
            return;
        var bytes = AwayOutput.BytesOf(payload.Length);
        if (away.Bytes + bytes > MaxBytesPerPlayer || _statistics.WaitingBytes + bytes > MaxBytes)
        {
            away.LostLines++;
            _statistics = _statistics with { LostLines = _statistics.LostLines + 1 };
            return;
        }

        away.Add(payload.ToArray(), header);
        _statistics = _statistics with { WaitingBytes = _statistics.WaitingBytes + bytes };
    }

    /// <summary>Ends the absence of a player, and returns what waited.</summary>
    public AwayOutput Return(Player player)
    {
        var away = End(player);
        _statistics = _statistics with { ReturnedPlayers = _statistics.ReturnedPlayers + 1 };
        return away;
    }

    /// <summary>Ends the absence of the players that were away for too long, and counts what is lost with them.</summary>
    public IReadOnlyList<Player> TakeLost()
    {
        var lost = Forget(player => timeProvider.GetElapsedTime(player.Session.Away!.Since) >= settings.AwayLimit);
        _statistics = _statistics with { LostPlayers = _statistics.LostPlayers + lost.Count };
        return lost;
    }

    /// <summary>Ends the absence of some players, and counts the lines that waited for them.</summary>
    public IReadOnlyList<Player> Forget(Func<Player, bool> isForgotten)
    {
        var forgotten = _byToken.Values.Where(isForgotten).ToList();
        var lines = forgotten.Sum(player => End(player).Lines.Count);
        _statistics = _statistics with { LostLines = _statistics.LostLines + lines };
        return forgotten;
    }

    private AwayOutput End(Player player)
    {
        var away = player.Session.Away!;
        player.Session.Away = null;
        _byToken.Remove(away.Token);
        _statistics = _statistics with { Players = _byToken.Count, WaitingBytes = _statistics.WaitingBytes - away.Bytes };
        if (_byToken.Count > 0)
            return away;
        _timer?.Dispose();
        _timer = null;
        return away;
    }
}

/// <summary>What was written for a player that is away.</summary>
internal sealed class AwayOutput(string token, long since)
{
    private readonly List<(byte[] Payload, MessageHeader? Header)> _lines = [];

    public string Token { get; } = token;

    /// <summary>A timestamp of the game's clock.</summary>
    public long Since { get; } = since;

    public int Bytes { get; private set; }

    public int LostLines { get; set; }

    public IReadOnlyList<(byte[] Payload, MessageHeader? Header)> Lines => _lines;

    // Includes the fixed cost of an array and its entry.
    public static int BytesOf(int payloadBytes) => 48 + payloadBytes;

    public void Add(byte[] payload, MessageHeader? header)
    {
        _lines.Add((payload, header));
        Bytes += BytesOf(payload.Length);
    }
}
