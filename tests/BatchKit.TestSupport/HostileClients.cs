namespace BatchKit.TestSupport;

/// <summary>The size of tests with hostile clients: a tenth by default, and the whole where the environment asks for it.</summary>
public static class HostileClients
{
    /// <summary>The environment variable; when it is 1, these tests run with all their clients and requests.</summary>
    public const string Variable = "BATCHKIT_HOSTILE_FULL";

    /// <summary>How many of a test's clients or requests there are in this run; at least one.</summary>
    public static int Of(int full) => Environment.GetEnvironmentVariable(Variable) == "1" ? full : Math.Max(1, full / 10);
}
