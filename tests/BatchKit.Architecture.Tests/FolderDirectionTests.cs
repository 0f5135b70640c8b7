namespace BatchKit.Architecture.Tests;

public sealed class FolderDirectionTests
{
    [Fact]
    public void The_cores_folders_call_down_only()
    {
        var direction = new FolderDirection(Repository.Sources("src/BatchKit"));

        var violations = direction.FindViolations();

        Assert.True(direction.UseCount > 50, $"Only {direction.UseCount} uses were found: the source was not understood.");
        Assert.True(violations.Count == 0, string.Join(Environment.NewLine, violations));
    }

    [Fact]
    public void A_call_up_is_found()
    {
        var direction = new FolderDirection(
        [
            SourceFile.Parse("src/Core/Dispatch/Lane.cs", "namespace Core.Dispatch; class Lane { Buffering.Pen? _pen; }"),
            SourceFile.Parse("src/Core/Buffering/Pen.cs", "namespace Core.Buffering; class Pen { }"),
        ]);

        var violations = direction.FindViolations();

        Assert.Equal(["src/Core/Dispatch/Lane.cs uses src/Core/Buffering/Pen.cs."], violations);
    }

    [Fact]
    public void A_call_up_by_way_of_the_root_is_found()
    {
        var direction = new FolderDirection(
        [
            SourceFile.Parse("src/Core/Dispatch/Lane.cs", "namespace Core.Dispatch; class Lane { void Go(Door door) => door.Open(); }"),
            SourceFile.Parse("src/Core/Door.cs", "namespace Core; class Door { Hall _hall = new(); public void Open() { } }"),
            SourceFile.Parse("src/Core/Hall.cs", "namespace Core; class Hall { Buffering.Pen? _pen; }"),
            SourceFile.Parse("src/Core/Buffering/Pen.cs", "namespace Core.Buffering; class Pen { }"),
        ]);

        var violations = direction.FindViolations();

        Assert.Equal(["src/Core/Dispatch/Lane.cs uses src/Core/Door.cs, which leads to Buffering."], violations);
    }

    [Fact]
    public void A_word_of_the_root_that_leads_nowhere_is_free_to_use()
    {
        var direction = new FolderDirection(
        [
            SourceFile.Parse("src/Core/Transports/Wire.cs", "namespace Core.Transports; class Wire { Handle _handle; }"),
            SourceFile.Parse("src/Core/Handle.cs", "namespace Core; struct Handle { Kind _kind; }"),
            SourceFile.Parse("src/Core/Kind.cs", "namespace Core; enum Kind { }"),
        ]);

        Assert.Empty(direction.FindViolations());
    }
}
