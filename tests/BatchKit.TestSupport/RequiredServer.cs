namespace BatchKit.TestSupport;

/// <summary>Decides what a missing server means: the test is skipped with a reason, or fails where servers are required.</summary>
public static class RequiredServer
{
    /// <summary>The environment variable; when it is 1, a missing server fails its tests.</summary>
    public const string Variable = "BATCHKIT_TEST_REQUIRE_BROKERS";

    /// <summary>Skips or fails the test when its server is missing.</summary>
    /// <param name="whyMissing">Why the server is missing; null when it is there.</param>
    public static void SkipWhen(string? whyMissing)
    {
        if (whyMissing is null)
            return;
        if (Environment.GetEnvironmentVariable(Variable) == "1")
            Assert.Fail($"{whyMissing} {Variable}=1 requires it.");
        Assert.Skip(whyMissing);
    }
}
