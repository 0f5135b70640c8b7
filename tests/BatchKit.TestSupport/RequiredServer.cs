namespace BatchKit.TestSupport;

/// <summary>Decides what a missing server means: a skip that says why, or a failure where servers are required.</summary>
public static class RequiredServer
{
    /// <summary>With 1, a missing server fails its tests.</summary>
    public const string Variable = "BATCHKIT_TEST_REQUIRE_BROKERS";

    /// <summary>Does nothing when there is no reason; else skips or fails the test.</summary>
    /// <param name="whyMissing">Why the server can't be had; null when it can.</param>
    public static void SkipWhen(string? whyMissing)
    {
        if (whyMissing is null)
            return;
        if (Environment.GetEnvironmentVariable(Variable) == "1")
            Assert.Fail($"{whyMissing} {Variable}=1 requires it.");
        Assert.Skip(whyMissing);
    }
}
