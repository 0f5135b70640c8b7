namespace BatchKit.IntegrationTests;

/// <summary>Decides what a missing server means: a skip that says why, or a failure where servers are required.</summary>
internal static class RequiredServer
{
    /// <summary>With 1, a missing server fails its tests.</summary>
    public const string Variable = "BATCHKIT_TEST_REQUIRE_BROKERS";

    public static void SkipWhen(string? whyMissing)
    {
        if (whyMissing is null)
            return;
        if (Environment.GetEnvironmentVariable(Variable) == "1")
            Assert.Fail($"{whyMissing} {Variable}=1 requires it.");
        Assert.Skip(whyMissing);
    }
}
