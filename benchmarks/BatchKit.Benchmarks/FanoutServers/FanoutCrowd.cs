namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>Which groups the clients are in, by the order in which they come.</summary>
/// <param name="Subscribers">How many are in <see cref="Everybody"/>; who comes later is in no group.</param>
internal sealed record FanoutCrowd(int Subscribers)
{
    public const string Everybody = "everybody";

    /// <summary>Everybody is in one of so many large groups.</summary>
    public const int LargeGroups = 50;

    private const int SmallGroupMembers = 10;

    public int SmallGroups => (Subscribers + SmallGroupMembers - 1) / SmallGroupMembers;

    public static string LargeGroup(int number) => $"large {number}";

    public static string SmallGroup(int number) => $"small {number}";

    /// <param name="place">How many clients came before.</param>
    public IReadOnlyList<string> GroupsOf(int place) =>
        place >= Subscribers ? [] : [Everybody, LargeGroup((int)((long)place * LargeGroups / Subscribers)), SmallGroup(place / SmallGroupMembers)];
}
