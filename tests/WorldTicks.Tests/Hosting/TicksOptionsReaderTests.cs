using WorldTicks.Hosting;

namespace WorldTicks.Tests.Hosting;

public sealed class TicksOptionsReaderTests
{
    [Theory]
    [InlineData(TicksRole.Both)]
    [InlineData(TicksRole.World, "world")]
    [InlineData(TicksRole.Worker, "worker")]
    [InlineData(TicksRole.Both, "--npcs", "3")]
    internal void The_first_word_is_the_command_and_none_means_both(TicksRole expected, params string[] arguments) =>
        Assert.Equal(expected, Read(arguments).Role);

    [Fact]
    public void The_command_line_wins_over_the_environment()
    {
        var options = TicksOptionsReader.Read(["worker", "--batch=7"], name => name switch
        {
            "WORLDTICKS_BATCH" => "8",
            "WORLDTICKS_CONCURRENCY" => "9",
            _ => null,
        });

        Assert.Equal(7, options.BatchSize);
        Assert.Equal(9, options.Concurrency);
    }

    [Fact]
    public void What_the_environment_says_for_another_command_is_left_alone()
    {
        var options = TicksOptionsReader.Read(["worker"], name => name == "WORLDTICKS_TICK" ? "nonsense" : null);

        Assert.Equal(TicksRole.Worker, options.Role);
    }

    [Theory]
    [InlineData("\"play\" is not a command", "play")]
    [InlineData("\"--nps\" is not an argument", "world", "--nps", "3")]
    [InlineData("--npcs is not for a worker", "worker", "--npcs", "3")]
    [InlineData("--concurrency is not for a world", "world", "--concurrency", "3")]
    [InlineData("--tick needs a value", "world", "--tick")]
    [InlineData("--tick takes a number from 10 to 60000, and \"9\" is not.", "world", "--tick", "9")]
    [InlineData("--npcs is given twice.", "--npcs", "3", "--npcs", "4")]
    [InlineData("--schema takes a name of 1 to 63 bytes", "--schema", "a-name-that-is-longer-than-an-identifier-of-postgresql-may-ever-be")]
    [InlineData("--connection takes a connection string", "--connection", "postgres://game:secret@localhost")]
    [InlineData("--connection takes a connection string", "--connection", "Username=game;Password=secret")]
    public void What_is_wrong_is_named_without_secrets(string expected, params string[] arguments)
    {
        var exception = Assert.Throws<TicksUsageException>(() => Read(arguments));

        Assert.StartsWith(expected, exception.Message, StringComparison.Ordinal);
        Assert.DoesNotContain("secret", exception.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void The_help_names_each_setting() =>
        Assert.All(TicksSettings.All, setting => Assert.Contains($"  {setting.Argument} ", TicksHelp.Text, StringComparison.Ordinal));

    private static TicksOptions Read(string[] arguments) => TicksOptionsReader.Read(arguments, static _ => null);
}
