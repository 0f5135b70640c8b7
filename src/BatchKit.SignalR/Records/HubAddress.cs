namespace BatchKit.SignalR.Records;

/// <summary>What a handle's name means to a hub: all its clients, those of a group or a user, one connection on another node, or one server.</summary>
internal enum HubTarget
{
    All,
    Group,
    User,
    Connection,
    Server,
}

/// <summary>The name of a handle: <c>signalr/hub/target/key</c>.</summary>
internal static class HubAddress
{
    private const string Prefix = "signalr/";

    private static readonly string[] Words = ["all", "group", "user", "connection", "server"];

    /// <summary>The part of a hub's handles that is the same for all; it ends with a slash.</summary>
    public static string PrefixOf(Type hub) => $"{Prefix}{hub.FullName}/";

    public static OutputHandle Create(string hubPrefix, HubTarget target, string key) => OutputHandle.Named($"{hubPrefix}{Words[(int)target]}/{key}");

    /// <returns>False for a name that no hub's handle has.</returns>
    public static bool TryParse(string name, out ReadOnlySpan<char> hubPrefix, out HubTarget target, out string key)
    {
        hubPrefix = default;
        (target, key) = (default, string.Empty);
        if (!name.StartsWith(Prefix, StringComparison.Ordinal) || name.IndexOf('/', Prefix.Length) is not (> 0 and var hubEnd) || name.IndexOf('/', hubEnd + 1) is not (> 0 and var wordEnd))
            return false;
        var word = name.AsSpan(hubEnd + 1, wordEnd - hubEnd - 1);
        for (var index = 0; index < Words.Length; index++)
        {
            if (!word.SequenceEqual(Words[index]))
                continue;
            hubPrefix = name.AsSpan(0, hubEnd + 1);
            (target, key) = ((HubTarget)index, name[(wordEnd + 1)..]);
            return true;
        }

        return false;
    }
}
