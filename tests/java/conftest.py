from tests.java.fixtures import java

__all__ = ["java"]
